/** What is live of a part of the platform against what the manifest says, what people set in it left theirs. Pure. */
import { isDeepStrictEqual } from 'node:util';
import { limitsMeta, variablesMeta } from '@flynn/controller/backup/manifest';
import { type PlatformLimits, limitsOf, parseLimits, withSetLimits } from '@flynn/controller/backup/platform-limits';
import type { Artifact, Release, Route } from '@flynn/controller/model';
import { type Process, processSchema } from '@flynn/controller/processes/process';
import type { Given, SystemApp, SystemRoute } from './manifest.ts';

export type Live = { release: Release; artifact?: Artifact };

/**
 * What people added stays. What an earlier manifest gave and this one does not goes: programs refuse variables they do not
 * know, so that one of another version would be in the way of this one's start, forward and back.
 */
export function nextEnv(
  wanted: SystemApp,
  before: Readonly<{ env: Readonly<Record<string, string>>; given: readonly string[] }>,
): Record<string, string> {
  const kept = Object.entries(before.env).filter(([name]) => !before.given.includes(name));
  return { ...Object.fromEntries(kept), ...wanted.env };
}

export const nothingGiven: Given = { variables: [], limits: undefined };

/** What the manifest gives it, of people nothing. */
export function givenBy({ env, processes }: SystemApp): Given {
  return { variables: Object.keys(env).sort(), limits: limitsOf(processes) };
}

/** Of an app's releases, newest first. */
export function lastGiven(all: readonly Pick<Release, 'meta' | 'artifactId' | 'processes'>[]): Given {
  const told = all.filter(({ meta }) => meta[variablesMeta] !== undefined);
  const [newest] = told;
  if (newest === undefined) return nothingGiven;
  const variables = newest.meta[variablesMeta]?.split(',').filter((name) => name !== '') ?? [];
  const limits = parseLimits(newest.meta[limitsMeta]);
  if (limits !== undefined) return { variables, limits };
  // A version of before wrote down no limits: of one image's releases the first has them as they were given.
  const first = told.findLast(({ artifactId }) => artifactId === newest.artifactId);
  return { variables, limits: limitsOf(first?.processes ?? {}) };
}

/** As the manifest says, but what people set since one was given last: what jobs may take, and on which hosts they may be. */
export function nextProcesses(
  wanted: SystemApp,
  { limits, given }: Readonly<{ limits: PlatformLimits; given: Given }>,
): Record<string, Process> {
  const processes = Object.entries(wanted.processes).map(([type, one]) => [type, processSchema.parse(one)] as const);
  return withSetLimits(Object.fromEntries(processes), { set: limits, given: given.limits });
}

/**
 * What people added to the environment and the limits they set stay theirs; the manifest's own variables, image and processes
 * count.
 */
export function isCurrent(wanted: SystemApp, live: Live, given: Given = nothingGiven): boolean {
  const image = live.artifact?.image;
  if (image === undefined || !('name' in image) || image.name !== wanted.image) return false;
  if (Object.entries(wanted.env).some(([name, value]) => live.release.env[name] !== value)) return false;
  const processes = nextProcesses(wanted, { limits: limitsOf(live.release.processes), given });
  return isDeepStrictEqual(processes, live.release.processes);
}

/** A new app came with a route of its own, which the platform's apps have no use for unless the manifest says so. */
export function routeChanges(
  wanted: readonly SystemRoute[],
  existing: readonly Route[],
  isNew: boolean,
): { toRemove: Route[]; toCreate: SystemRoute[] } {
  const isSame = (a: SystemRoute, b: Route): boolean =>
    a.service === b.service && (a.type === 'http' ? b.domain === a.domain && b.path === '/' : b.port === a.port);
  const isInTheWay = (route: Route): boolean =>
    wanted.some(
      (one) =>
        one.type === 'http' && one.domain === route.domain && route.path === '/' && one.service !== route.service,
    );
  const isFormer = (route: Route): boolean =>
    route.type === 'tcp' && wanted.some((one) => one.type === 'tcp' && one.service === route.service);
  return {
    toRemove: existing.filter(
      (route) => !wanted.some((one) => isSame(one, route)) && (isNew || isInTheWay(route) || isFormer(route)),
    ),
    toCreate: wanted.filter((one) => !existing.some((route) => isSame(one, route))),
  };
}
