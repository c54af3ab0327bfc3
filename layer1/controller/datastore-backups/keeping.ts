/** Looks after all datastores, a few at a time: whatever is changed about one, it is looked at again. */
import { keysOf, runReconciler } from '@flynn/resource/reconciler';
import type { Compare } from '@flynn/store/store';
import type { Mirror } from '@flynn/store/mirror';
import type { AppResource } from '../resources.ts';
import { wholeMs } from './making.ts';
import type { DumpBlobs } from './making.ts';
import { stepDatastore } from './steps.ts';
import type { StepDeps } from './subject.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';

/** Each streams from a host to the blob store through this process. */
const atOnce = 4;

/** Resolves when the signal aborts. */
export async function keepDatastores(
  deps: StepDeps,
  blobs: DumpBlobs,
  { apps, signal, epoch }: { apps: Mirror<AppResource>; signal: AbortSignal; epoch: Compare },
): Promise<void> {
  await using plans = await deps.resources.mirror(backupPlanType, { signal });
  await using records = await deps.resources.mirror(datastoreBackupType, { signal });
  await runReconciler({
    name: 'datastores',
    sources: [
      keysOf(apps, ({ id, spec }) => (spec.datastore === undefined ? [] : [id])),
      keysOf(plans),
      keysOf(records, ({ owner }) => (owner === undefined ? [] : [owner.id])),
    ],
    concurrency: atOnce,
    // What is made, and what is put back, has deadlines of its own.
    deadlineMs: 2 * wholeMs,
    reconcile: (id, { signal: run }) => stepDatastore(deps, blobs, id, { signal: run, epoch }),
    log: deps.log,
    signal,
  });
}
