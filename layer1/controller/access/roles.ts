/** What may somebody do with an app, or with the cluster? Pure. */
export const roles = ['viewer', 'developer', 'admin'] as const;
export type Role = (typeof roles)[number];
/** A role, or nothing at all. */
export type Level = Role | 'none';

const ranks: Readonly<Record<Level, number>> = { none: 0, viewer: 1, developer: 2, admin: 3 };

export function isAtLeast(level: Level, needed: Level): boolean {
  return ranks[level] >= ranks[needed];
}

export function higher(a: Level, b: Level): Level {
  return ranks[a] >= ranks[b] ? a : b;
}

export function lower(a: Level, b: Level): Level {
  return ranks[a] <= ranks[b] ? a : b;
}

/** What somebody was given: on every app, and on single ones by their ids. */
export type Standing = Readonly<{ cluster: Level; apps: ReadonlyMap<string, Level> }>;

/** Whether something that was allowed no longer is. */
export function isReduced(before: Standing, after: Standing): boolean {
  if (!isAtLeast(after.cluster, before.cluster)) return true;
  return [...before.apps].some(([id, level]) => !isAtLeast(higher(after.apps.get(id) ?? 'none', after.cluster), level));
}

/** What a token makes of it: never more than the role, and with `apps` nothing but these. */
export type Limits = Readonly<{ role: Role; appIds?: readonly string[] | undefined }>;

export const noLimits: Limits = { role: 'admin' };

export function clusterLevel(standing: Standing, limits: Limits): Level {
  return limits.appIds === undefined ? lower(standing.cluster, limits.role) : 'none';
}

/**
 * The platform's own apps are the cluster: their environment holds its keys, their releases run its machines. Below an
 * admin of the cluster nobody does more than look at them.
 */
export function levelOn(app: { id: string; isSystem: boolean }, standing: Standing, limits: Limits): Level {
  if (limits.appIds !== undefined && !limits.appIds.includes(app.id)) return 'none';
  const given = higher(standing.cluster, standing.apps.get(app.id) ?? 'none');
  const level = app.isSystem && standing.cluster !== 'admin' ? lower(standing.cluster, 'viewer') : given;
  return lower(level, limits.role);
}

/** An app, as far as it matters to who may do what on it. */
export type AppToJudge = Readonly<{ id: string; isSystem: boolean }>;

/**
 * A datastore's app is nobody's own: what somebody may do there, up to what developers do, they may by what they are on the apps
 * that have it. More than that is for the cluster's admins: who may give a resource to an app of their own would make themselves
 * an admin of what others keep in it.
 */
export function levelOnDatastore(
  app: AppToJudge,
  having: readonly AppToJudge[],
  standing: Standing,
  limits: Limits,
): Level {
  // A token that names the datastore itself is good for it by all that its owner is.
  const scope = limits.appIds?.includes(app.id) === true ? { role: limits.role } : limits;
  const most = having.reduce<Level>((level, one) => higher(level, levelOn(one, standing, scope)), 'none');
  return higher(levelOn(app, standing, limits), lower(most, 'developer'));
}

/** The most that there is on any app. */
export function highestLevel(standing: Standing, limits: Limits): Level {
  const own = [...standing.apps].filter(([id]) => limits.appIds === undefined || limits.appIds.includes(id));
  const named = limits.appIds === undefined || limits.appIds.length > 0 ? standing.cluster : 'none';
  return lower(
    own.reduce<Level>((most, [, level]) => higher(most, level), named),
    limits.role,
  );
}

/** Limits of a token made by one that has limits itself: never wider. Undefined when what is asked for is. */
export function narrowed(outer: Limits, asked: Limits): Limits | undefined {
  if (!isAtLeast(outer.role, asked.role)) return undefined;
  if (outer.appIds === undefined) return asked;
  const { appIds } = asked;
  if (appIds === undefined || appIds.some((id) => outer.appIds?.includes(id) !== true)) return undefined;
  return asked;
}
