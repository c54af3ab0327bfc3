/** What there is to know of each route time and again: of all there may be a hundred thousand, and routes have pages. */
import type { Logger } from '@flynn/kit/log';
import { resourcePrefix } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';
import { routeType } from '../resources.ts';
import type { RouteResource } from '../resources.ts';

export type RouteBrief = Readonly<{
  id: string;
  appId: string;
  service: string;
  /** The releases that have weights, and the one that leaves. */
  sharing: readonly string[];
  leaving?: string;
}>;

/** Pure. */
export function briefOf({ id, spec }: RouteResource): RouteBrief {
  const { appId, service, http, leavingReleaseId } = spec;
  const sharing = http.weights.map(({ release }) => release);
  return { id, appId, service, sharing, ...(leavingReleaseId === undefined ? {} : { leaving: leavingReleaseId }) };
}

export async function openBriefRoutes(options: {
  store: Store;
  log: Logger;
  signal?: AbortSignal;
}): Promise<Mirror<RouteBrief>> {
  const decode: Parameters<typeof openMirror<RouteBrief>>[0]['decode'] = (_json, _key, entry) =>
    briefOf(decodeResource(routeType, entry));
  return openMirror({ ...options, prefix: resourcePrefix(routeType.name), decode });
}
