/** Which ended operations go? The oldest beyond what is indexed, and of an app's whole pushes beyond its newest. */
import { pause } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { Compare, Entry, Operation as StoreOperation, Store } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { byEnd, endedRow } from './history.ts';
import type { EndedOperation, OperationHistory } from './history.ts';
import { removeLog } from './log.ts';
import { pruneLogs } from './log-pruning.ts';
import { historyKey, historyShards } from './records.ts';

/** Each is two operations of a transaction. */
const batchSize = 50;
const keepOfApp = 50;

/** Those beyond the newest `keep`, newest first given: whole pushes, so that no chain loses its middle. */
export function expiredOfApp(
  rows: readonly EndedOperation[],
  livePushes: ReadonlySet<string>,
  keep = keepOfApp,
): EndedOperation[] {
  const kept = new Set(rows.slice(0, keep).map(({ pushId }) => pushId));
  return rows.slice(keep).filter(({ pushId }) => !kept.has(pushId) && !livePushes.has(pushId));
}

type Options = { signal: AbortSignal; epoch: Compare };

const pruneMs = 600_000;

/** Runs until the signal aborts: prunes at once and then every ten minutes. */
export async function keepHistory(deps: Deps, options: Options & { log: Logger }): Promise<void> {
  await forever(
    'pruning the history of operations',
    async (signal) => {
      const gone = await pruneHistory(deps, { signal, epoch: options.epoch });
      if (gone > 0) deps.log.info({ gone }, 'ended operations were pruned');
      const dropped = await pruneLogs(deps, { signal, epoch: options.epoch });
      if (dropped > 0) deps.log.info({ dropped }, 'logs of ended operations were dropped for their room');
      await pause(pruneMs, signal);
    },
    options,
  );
}

/** What one app has too much. */
export async function pruneApp(deps: Deps, appId: string, options: Options): Promise<void> {
  const rows = await deps.history.rowsOfApp(appId, options.signal);
  const live = new Set(deps.queue.ofApp(appId).map(({ spec }) => spec.pushId));
  const old = expiredOfApp(rows, live).map(({ id }) => id);
  await removeEnded(deps.store, old, options);
}

/** A shard at a time, in bounded batches; answers how many went. Live ones are elsewhere and never touched. */
export async function pruneHistory(
  { store, history }: { store: Store; history: OperationHistory },
  options: Options,
): Promise<number> {
  await history.ready(options.signal);
  const { horizon } = history;
  if (horizon === undefined) return 0;
  let gone = 0;
  for (const shard of historyShards) {
    const { entries } = await store.list(shard, { signal: options.signal });
    const old = entries.filter((entry) => isBefore(entry, horizon)).map(({ key }) => key.slice(shard.length));
    gone += await removeEnded(store, old, options);
  }
  return gone;
}

function isBefore(entry: Entry, horizon: EndedOperation): boolean {
  try {
    return byEnd(endedRow(entry), horizon) < 0;
  } catch {
    // What cannot be read was told of when the index was made; it is not this program's to remove.
    return false;
  }
}

/** With their logs. */
export async function removeEnded(store: Store, ids: readonly string[], options: Options): Promise<number> {
  for (let at = 0; at < ids.length; at += batchSize) {
    const then = ids
      .slice(at, at + batchSize)
      .flatMap((id): StoreOperation[] => [{ delete: historyKey(id) }, removeLog(id)]);
    const { succeeded } = await store.transact({ compare: [options.epoch], then }, { signal: options.signal });
    if (!succeeded) return at;
  }
  return ids.length;
}

/** All there are of the app, whether or not they are indexed. */
export async function endedOperationsOf(
  { store }: Pick<Deps, 'store'>,
  appId: string,
  signal: AbortSignal,
): Promise<string[]> {
  const found: string[] = [];
  for (const shard of historyShards) {
    const { entries } = await store.list(shard, { signal });
    for (const entry of entries) if (isOfApp(entry, appId)) found.push(entry.key.slice(shard.length));
  }
  return found;
}

function isOfApp({ value }: Entry, appId: string): boolean {
  return value.includes(`"appId":${JSON.stringify(appId)}`);
}
