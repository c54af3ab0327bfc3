/**
 * What is too old goes: see pieces.ts. What fails here is tried again with the next minute. It goes for good, and our clock and the
 * datastore's may be one and the same host's: by one that leaps ahead nothing goes at once (clocks/believed-clock.ts).
 */
import { aheadSince } from '../clocks/believed-clock.ts';
import { guard } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import { blobsOfArchive, kept, keptSince } from './pieces.ts';
import { archiveType, historyType } from './types.ts';
import type { HistoryResource, HistoryStatus } from './types.ts';

/** So often it is written down that our clock goes on as it should. */
const noteMs = 3_600_000;

type Clock = NonNullable<HistoryStatus['clock']>;
type Options = StepOptions & Readonly<{ days: number }>;

/** Whatever else cannot be done: what is kept does not grow without end. */
export async function forget(deps: StepDeps, id: string, options: Options): Promise<void> {
  try {
    await forgetOld(deps, id, options);
  } catch (error) {
    if (options.signal.aborted) throw error;
    deps.log.warn({ err: error, datastore: id }, 'what is too old of a history could not be forgotten');
  }
}

async function forgetOld(deps: StepDeps, id: string, options: Options): Promise<void> {
  const { resources, now } = deps;
  const { signal, days } = options;
  const { status: history } = await resources.get(historyType, id, { signal });
  if (!(await isBelieved(deps, { id, history }, options))) return;
  const { status: archive } = await resources.get(archiveType, id, { signal });
  const sinceMs = keptSince(archive, history, { days, nowMs: now() });
  const left = kept(archive, history, sinceMs);
  const write = { signal, also: guard(options) };
  if (blobsOfArchive(left.archive).length < blobsOfArchive(archive).length) {
    await resources.updateStatus(archiveType, id, ({ status }) => kept(status, history, sinceMs).archive, write);
  }
  if (left.recent.length === history.recent.length && left.ended.length === (history.ended ?? []).length) return;
  const needed = new Set(left.recent.map(({ digest }) => digest));
  const newest = ({ status }: HistoryResource) => ({
    ...status,
    recent: status.recent.filter(({ digest }) => needed.has(digest)),
    ended: left.ended,
  });
  await resources.updateStatus(historyType, id, newest, write);
}

/** Whether our clock is; what comes of it is written down. */
async function isBelieved(
  { resources, now, log }: StepDeps,
  { id, history }: Readonly<{ id: string; history: HistoryStatus }>,
  options: StepOptions,
): Promise<boolean> {
  const nowMs = now();
  const clock = clockAt(history, nowMs);
  const isAhead = clock.aheadMs !== undefined;
  if (clock !== history.clock) {
    if (isAhead) log.warn({ datastore: id, ...clock }, 'nothing of a history is forgotten: the clock leapt ahead');
    const noted = ({ status }: HistoryResource) => ({ ...status, clock });
    await resources.updateStatus(historyType, id, noted, { signal: options.signal, also: guard(options) });
  }
  return !isAhead;
}

/** Pure. The same where there is nothing to be written down. Of a version before this it is known when blobs were asked after. */
export function clockAt({ clock, looked }: Pick<HistoryStatus, 'clock' | 'looked'>, nowMs: number): Clock {
  const lastMs = clock?.believedMs ?? looked?.atMs;
  const aheadMs = aheadSince({ lastMs, aheadMs: clock?.aheadMs }, nowMs);
  if (aheadMs !== undefined) {
    return clock?.aheadMs === aheadMs ? clock : { ...(lastMs === undefined ? {} : { believedMs: lastMs }), aheadMs };
  }
  if (clock?.believedMs === undefined || clock.aheadMs !== undefined) return { believedMs: nowMs };
  return Math.abs(nowMs - clock.believedMs) < noteMs ? clock : { believedMs: nowMs };
}
