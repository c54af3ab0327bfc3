/**
 * What people set of the platform's parts may ask for hosts that the cluster which comes back has not: of a name, with a tag, of a
 * size. A part that waited for one would hold up all of the restore: it runs without, and that is told. Pure.
 */
import { isDeepStrictEqual } from 'node:util';
import type { PlatformPart } from '@flynn/controller/backup/manifest';
import type { PlatformLimits } from '@flynn/controller/backup/platform-limits';
import { typedConstraint } from '@flynn/controller/processes/constraints';
import { failedConstraint } from '@flynn/scheduler/feasible';
import type { HostSpec } from '@flynn/scheduler/placement/host-table';

export type Place = Pick<HostSpec, 'id' | 'capacity' | 'attributes'>;
type Kept = Pick<PlatformPart['apps'][string], 'limits' | 'givenLimits'>;
type Limits = PlatformLimits[string];

const mebibyte = 1024 ** 2;

/** With what a manifest gave of old in the place of what none of the hosts has. */
export function metLimits({ limits = {}, givenLimits = {} }: Kept, hosts: readonly Place[]): PlatformLimits {
  const entries = Object.entries(limits).map(([type, set]): [string, Limits] => {
    const given = givenLimits[type];
    return [type, given === undefined ? set : met(set, given, hosts)];
  });
  return Object.fromEntries(entries);
}

function met(set: Limits, given: Limits, hosts: readonly Place[]): Limits {
  const isMet = hosts.some(
    ({ id, attributes }) => failedConstraint(id, attributes, set.constraints ?? []) === undefined,
  );
  const most = (field: 'memoryBytes' | 'cpuMillis'): number =>
    Math.max(...hosts.map(({ capacity }) => capacity[field]));
  const constraints = isMet ? set.constraints : given.constraints;
  return {
    memoryBytes: set.memoryBytes > most('memoryBytes') ? given.memoryBytes : set.memoryBytes,
    cpuMillis: set.cpuMillis > most('cpuMillis') ? given.cpuMillis : set.cpuMillis,
    ...(constraints === undefined ? {} : { constraints }),
  };
}

/** For people, with what to type once there is such a host; nothing where all of it is met. */
export function unmetText({ apps }: Pick<PlatformPart, 'apps'>, hosts: readonly Place[]): string {
  const commands = Object.entries(apps).flatMap(([app, kept]) => {
    const own = metLimits(kept, hosts);
    return Object.entries(kept.limits ?? {}).flatMap(([type, set]) => commandsOf({ app, type }, set, own[type] ?? set));
  });
  if (commands.length === 0) return '';
  const lines = commands.map((command) => `  ${command}\n`).join('');
  return `\nNo host here is as these parts of the platform were to have it, and they run without. Once there is one:\n\n${lines}`;
}

function commandsOf({ app, type }: { app: string; type: string }, set: Limits, own: Limits): string[] {
  const constraints = (set.constraints ?? []).map((one) => `'${typedConstraint(one)}'`);
  const sizes = [
    ...(set.memoryBytes === own.memoryBytes ? [] : [`memory=${Math.ceil(set.memoryBytes / mebibyte)}MB`]),
    ...(set.cpuMillis === own.cpuMillis ? [] : [`cpu=${set.cpuMillis}`]),
  ];
  const isMet = isDeepStrictEqual(set.constraints, own.constraints);
  return [
    ...(isMet ? [] : [`flynn -a ${app} constraint set ${type} ${constraints.join(' ')}`]),
    ...(sizes.length === 0 ? [] : [`flynn -a ${app} limit set ${type} ${sizes.join(' ')}`]),
  ];
}
