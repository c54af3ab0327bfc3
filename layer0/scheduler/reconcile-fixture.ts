/** What reconcilers decide, shortly told. For tests. */
import type { Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import type { Departure } from './drain.ts';
import type { Decision, ReconcileInput, Slot } from './reconcile.ts';
import { reconcileService } from './slots.ts';
import { placedOf } from './testing.ts';

export const now = 1_000_000;
export const inputOf = (placed: readonly PlacedJob[], more: Partial<ReconcileInput> = {}): ReconcileInput => ({
  placed,
  ended: placed.flatMap(({ status }) => (status?.isFinal === true ? [status] : [])),
  lostHosts: new Set(),
  departures: new Map(),
  isThere: (hostId) => more.lostHosts?.has(hostId) !== true,
  homeOf: () => undefined,
  hasRoomFor: () => true,
  now,
  ...more,
});
export const lost = (...hostIds: string[]) => ({ lostHosts: new Set(hostIds) });
export const leaving = (hostId: string, more: Partial<Departure> = {}) => ({
  departures: new Map([[hostId, { maxParallel: 1, isDue: false, why: 'draining' as const, ...more }]]),
});
export const nameOf = ({ id, hostId }: PlacedJob) => id.slice(hostId.length + 1);
export const summary = ({ place, stop, release }: Decision) => ({
  place: place.map(({ index }) => index),
  stop: stop.map(nameOf).sort(),
  release: release.map(nameOf).sort(),
});
export const none = { place: [], stop: [], release: [] };
export const service = (workload: Workload, ...placed: PlacedJob[]) =>
  summary(reconcileService(workload, inputOf(placed)));

/** What is done, by kind; what nothing is done about is ignored. */
export function countsOf(workload: Workload, placed: readonly PlacedJob[], more: Partial<ReconcileInput> = {}) {
  const { place, stop, release } = reconcileService(workload, inputOf(placed, more));
  const by = (why: Slot['why']) => place.filter((slot) => slot.why === why).length;
  const replaced = by('destructive') + by('migrate');
  const counts = {
    missing: by('missing'),
    lost: by('lost'),
    destructive: by('destructive'),
    migrate: by('migrate'),
    stop: stop.length,
    release: release.length,
    ignore: placed.length - stop.length - release.length - replaced,
  };
  return Object.fromEntries(Object.entries(counts).filter(([, count]) => count !== 0));
}
export const running = (workload: Workload, count: number, more: Parameters<typeof placedOf>[2] = {}): PlacedJob[] =>
  Array.from({ length: count }, (_, index) =>
    placedOf(workload, `j${index}`, { index, state: 'running', hostId: `h${index}`, ...more }),
  );
