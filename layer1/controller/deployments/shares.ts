/**
 * What becomes of the weights of an app's routes while a deployment takes one release away? They say how two releases share
 * while both are whole, as a canary waits beside what is live. From its promotion on, or from the beginning where nobody
 * waits, what leaves gets no more than its jobs would without weights; and when it is gone, weights that named it end:
 * there is nothing left to share, and the next deployment must not begin with what was meant for this one.
 */
import type { Piece } from '@flynn/resource/piece';
import { writePiece } from '@flynn/resource/piece';
import type { Deps } from '../deps.ts';
import { routeType } from '../resources.ts';
import type { RouteResource } from '../resources.ts';
import type { RouteBrief } from '../routes/brief.ts';

type Spec = RouteResource['spec'];

export type SharesDeps = Pick<Deps, 'now'> & {
  resources: {
    find: (type: typeof routeType, id: string, options: { signal: AbortSignal }) => Promise<RouteResource | undefined>;
  };
  routesByApp: Pick<Deps['routesByApp'], 'of'>;
};

export type SharesChange =
  | { what: 'leaving'; releaseId: string }
  | { what: 'gone'; releaseId: string; live: string | undefined };

/** Of routes, which have pages, beside what else a step writes: a transaction takes 8 MB and a thousand writes. */
const most = { routes: 200, characters: 1_000_000 };

/**
 * Of the routes of the app that it changes. What is over the most is left to the next step; weights whose release is gone, if
 * there is none, give nobody anything.
 */
export async function sharesPieces(
  deps: SharesDeps,
  appId: string,
  change: SharesChange,
  signal: AbortSignal,
): Promise<Piece[]> {
  // A moment behind the store, maybe: each step of a deployment looks again. No more are read than can be changed.
  const meant = deps.routesByApp
    .of(appId)
    .filter((route) => mayChange(route, change))
    .slice(0, most.routes);
  const found = await Promise.all(meant.map(({ id }) => deps.resources.find(routeType, id, { signal })));
  const routes = found.flatMap((route) => route ?? []);
  const updatedAt = new Date(deps.now()).toISOString();
  const changed = routes.flatMap((route) => {
    const spec = change.what === 'leaving' ? whileLeaving(route.spec, change.releaseId) : onceGone(route.spec, change);
    return spec === route.spec ? [] : [{ before: route, after: { ...route, updatedAt, spec } }];
  });
  return changed
    .slice(0, fitting(changed.map(({ after }) => JSON.stringify(after).length)))
    .map(({ before, after }) => writePiece(routeType, before, after));
}

/** Whether it is worth reading whole. Pure. */
function mayChange({ sharing, leaving }: RouteBrief, { what, releaseId }: SharesChange): boolean {
  if (what === 'leaving') return sharing.includes(releaseId) && leaving !== releaseId;
  return sharing.includes(releaseId) || leaving !== undefined;
}

/** How many of them, of such lengths, go into one transaction: one at least. Pure. */
export function fitting(lengths: readonly number[]): number {
  let left = most.characters;
  const first = lengths.slice(0, most.routes).findIndex((length, index) => {
    left -= length;
    return left < 0 && index > 0;
  });
  return first < 0 ? Math.min(lengths.length, most.routes) : first;
}

/** The same object if nothing changes. Pure. */
export function whileLeaving(spec: Spec, releaseId: string): Spec {
  const isNamed = spec.http.weights.some(({ release }) => release === releaseId);
  return isNamed && spec.leavingReleaseId !== releaseId ? { ...spec, leavingReleaseId: releaseId } : spec;
}

/** Weights of the live release and others stay: they were given for what comes next. The same object if nothing changes. Pure. */
export function onceGone(spec: Spec, { releaseId, live }: { releaseId: string; live: string | undefined }): Spec {
  const { leavingReleaseId, ...rest } = spec;
  const { weights } = spec.http;
  const left = weights.filter(({ release }) => release !== releaseId);
  if (left.length === weights.length) return leavingReleaseId === undefined ? spec : rest;
  const isShared = left.some(({ release }) => release === live) && left.length > 1;
  const isOfUse = isShared && left.some(({ weight }) => weight > 0);
  const shares = isOfUse ? { weights: left } : { weights: [], releaseAffinity: false };
  return { ...rest, http: { ...spec.http, ...shares } };
}
