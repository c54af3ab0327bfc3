/**
 * Looks after the histories of all datastores: their logs every minute, copies of all there is where they are due, and whether what
 * is kept of both is there.
 */
import { keysOf, reconciling } from '@flynn/resource/reconciler';
import { superviseAll } from '@flynn/resource/supervise';
import type { Compare } from '@flynn/store/store';
import type { Mirror } from '@flynn/store/mirror';
import { wholeMs } from '../datastore-backups/making.ts';
import type { StepDeps } from '../datastore-backups/subject.ts';
import { backupPlanType } from '../datastore-backups/types.ts';
import type { AppResource } from '../resources.ts';
import type { HistoryBlobs } from './catalogue.ts';
import { stepCopy } from './copying.ts';
import { stepLook } from './looking.ts';
import { stepMerge } from './merging.ts';
import { stepHistory } from './steps.ts';
import { historyType } from './types.ts';

/** A log that waits for those before it is written on meanwhile; a copy streams for long. */
const atOnce = { logs: 8, pieces: 2, looks: 2, copies: 2 } as const;

/** Resolves when the signal aborts. */
export async function keepHistories(
  deps: StepDeps,
  blobs: HistoryBlobs,
  { apps, signal, epoch }: { apps: Mirror<AppResource>; signal: AbortSignal; epoch: Compare },
): Promise<void> {
  await using plans = await deps.resources.mirror(backupPlanType, { signal });
  await using histories = await deps.resources.mirror(historyType, { signal });
  const datastores = keysOf(apps, ({ id, spec }) => (spec.datastore === undefined ? [] : [id]));
  // What is streamed has deadlines of its own.
  const common = { deadlineMs: 2 * wholeMs, log: deps.log };
  const tasks = [
    reconciling({
      ...common,
      name: 'logs of datastores',
      sources: [datastores, keysOf(plans), keysOf(histories)],
      concurrency: atOnce.logs,
      reconcile: (id, { signal: run }) => stepHistory(deps, blobs, id, { signal: run, epoch }),
    }),
    reconciling({
      ...common,
      name: 'pieces of logs of datastores',
      sources: [keysOf(histories)],
      concurrency: atOnce.pieces,
      reconcile: (id, { signal: run }) => stepMerge(deps, blobs, id, { signal: run, epoch }),
    }),
    reconciling({
      ...common,
      name: 'blobs of histories of datastores',
      sources: [keysOf(histories)],
      concurrency: atOnce.looks,
      reconcile: (id, { signal: run }) => stepLook(deps, blobs, id, { signal: run, epoch }),
    }),
    reconciling({
      ...common,
      name: 'copies of datastores',
      sources: [datastores, keysOf(histories)],
      concurrency: atOnce.copies,
      reconcile: (id, { signal: run }) => stepCopy(deps, blobs, id, { signal: run, epoch }),
    }),
  ];
  await superviseAll(tasks, { log: deps.log, signal });
}
