/**
 * What of a datastore's app is not for people to change by hand: what it runs, what its members know each other by, that it is
 * there. Pure; throws `denied` with what to do instead.
 */
import { appliances } from '@flynn/appliances/appliances';
import { FlynnError } from '@flynn/kit/errors';
import { hiddenValue } from '../access/redaction.ts';
import { isEqual } from '../generic/difference.ts';
import type { Process } from '../processes/process.ts';
import type { Release } from '../model.ts';
import type { AppResource } from '../resources.ts';
import { isOwnField } from './datastore.ts';

type Env = Readonly<Record<string, string>>;

/** What a release says, as far as people make it. */
export type ReleaseContent = Partial<
  Pick<Release, 'artifactId' | 'env' | 'references' | 'processes' | 'links' | 'scripts' | 'cron'>
>;

/** What programs in any member go by: what they are told there is not what they are told by the platform. */
const leading = /^(?:FLYNN_|PYTHON|LD_|BASH_|ENV$|PATH$|SHELL$)/;

/** `instead`: what is refused, and what there is in its place. */
export function refuseForDatastore({ spec: { name, datastore } }: Pick<AppResource, 'spec'>, instead: string): void {
  if (datastore === undefined) return;
  throw new FlynnError('denied', `${name} is a datastore (${datastore.appliance}): ${instead}`);
}

export function refuseRemoval(app: Pick<AppResource, 'spec'>): void {
  refuseForDatastore(
    app,
    `it goes with its resource and all that is in it: flynn resource remove ${app.spec.datastore?.resourceId ?? ''}`,
  );
}

export function refuseSource(app: Pick<AppResource, 'spec'>): void {
  refuseForDatastore(app, 'what it runs is the platform’s, and nothing is pushed to it or built for it');
}

/** Whoever reads no values sends what they were shown in their place: that stays as it was. */
export function withoutHidden(next: Env, before: Env): Record<string, string> {
  return Object.fromEntries(
    Object.entries(next).map(([name, value]) => [name, value === hiddenValue ? (before[name] ?? value) : value]),
  );
}

/**
 * What is to follow `before` in the place of what somebody asks for, with what they were not shown. People change what its members
 * may take, which more hosts are to be like, and variables that are nobody's yet.
 */
export function guardedContent(
  app: Pick<AppResource, 'spec'>,
  before: ReleaseContent,
  asked: ReleaseContent,
): ReleaseContent {
  const { name, datastore } = app.spec;
  if (datastore === undefined) return asked;
  const refuse = (what: string): never => {
    throw new FlynnError(
      'denied',
      `${what}: ${name} is a datastore (${datastore.appliance}), and that is for the platform to change; limits, counts, constraints and variables of your own are yours`,
    );
  };
  for (const field of ['artifactId', 'links', 'scripts', 'cron'] as const) {
    if (asked[field] !== undefined && !isEqual(asked[field], before[field]))
      refuse(`another ${words[field]} is refused`);
  }
  const env = asked.env && withoutHidden(asked.env, before.env ?? {});
  const references = asked.references && withoutHidden(asked.references, before.references ?? {});
  const { secrets = [], reservedVariables = [] } = appliances.get(datastore.appliance) ?? {};
  const refuseChanged = (changed: readonly string[]): void => {
    const isReserved = (one: string) => leading.test(one) || reservedVariables.some((start) => one.startsWith(start));
    const taken = changed.find((one) => secrets.includes(one) || isReserved(one));
    if (taken !== undefined) refuse(`${taken} is not set or unset by hand`);
  };
  if (env !== undefined) {
    refuseChanged(changedNames(before.env ?? {}, env));
    checkOptions(app, env);
  }
  if (references !== undefined) refuseChanged(changedNames(before.references ?? {}, references));
  const processes =
    asked.processes && guardedProcesses(before.processes ?? {}, asked.processes, { refuse, refuseChanged });
  if (processes !== undefined) checkMemory(app, before.processes ?? {}, processes);
  return {
    ...asked,
    ...(env === undefined ? {} : { env }),
    ...(references === undefined ? {} : { references }),
    ...(processes === undefined ? {} : { processes }),
  };
}

/** What its programs would not begin with. */
function checkOptions({ spec: { name, datastore } }: Pick<AppResource, 'spec'>, env: Env): void {
  for (const { variable, values } of Object.values(appliances.get(datastore?.appliance ?? '')?.options ?? {})) {
    const value = env[variable];
    if (value === undefined || values.includes(value)) continue;
    throw new FlynnError('invalid', `${variable}=${value}: members of ${name} know ${values.join(', ')}`);
  }
}

const words = { artifactId: 'image', links: 'link', scripts: 'script', cron: 'schedule' } as const;

type Processes = Readonly<Record<string, Process>>;

function guardedProcesses(
  before: Processes,
  asked: Processes,
  { refuse, refuseChanged }: { refuse: (what: string) => never; refuseChanged: (changed: readonly string[]) => void },
): Record<string, Process> {
  const types = Object.keys(before);
  const added = Object.keys(asked).find((type) => !Object.hasOwn(before, type));
  if (added !== undefined) refuse(`the process type ${added} is refused`);
  const kept = types.map((type): [string, Process] => {
    const [was, is] = [before[type], asked[type]];
    if (was === undefined || is === undefined) return refuse(`the process type ${type} stays`);
    const next = { ...is, env: withoutHidden(is.env, was.env) };
    refuseChanged(changedNames(was.env, next.env));
    const missing = (was.constraints ?? []).filter(
      (one) => one.operator === 'distinct' && !(is.constraints ?? []).some((other) => isEqual(one, other)),
    );
    if (missing.length > 0) refuse('its members are on hosts of their own, and that constraint stays');
    const changed = Object.keys(fixedOf(was)).find((field) => !isEqual(fixedOf(was)[field], fixedOf(next)[field]));
    const more = Object.keys(fixedOf(next)).find((field) => !Object.hasOwn(was, field));
    if ((changed ?? more) !== undefined) refuse(`${changed ?? more} of ${type} stays as it is`);
    return [type, next];
  });
  return Object.fromEntries(kept);
}

/** All that is not for people to set. */
function fixedOf(process: Process): Record<string, unknown> {
  return Object.fromEntries(Object.entries(process).filter(([field]) => !isOwnField(field)));
}

function checkMemory(
  { spec: { name, datastore } }: Pick<AppResource, 'spec'>,
  before: Processes,
  after: Processes,
): void {
  const least = appliances.get(datastore?.appliance ?? '')?.leastMemoryBytes ?? 0;
  for (const [type, { memoryBytes }] of Object.entries(after)) {
    if (memoryBytes >= least || memoryBytes === before[type]?.memoryBytes) continue;
    throw new FlynnError(
      'invalid',
      `a member of ${name} does not run with ${Math.floor(memoryBytes / 1024 ** 2)}MB of memory: give it ${Math.ceil(least / 1024 ** 2)}MB at least`,
    );
  }
}

function changedNames(before: Env, after: Env): string[] {
  return [...new Set([...Object.keys(before), ...Object.keys(after)])].filter((name) => before[name] !== after[name]);
}
