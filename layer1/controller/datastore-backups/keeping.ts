/** Looks after all datastores, a few of each lane at a time: whatever is changed about one, it is looked at again. */
import { keysOf, reconciling } from '@flynn/resource/reconciler';
import { superviseAll } from '@flynn/resource/supervise';
import type { Compare } from '@flynn/store/store';
import type { Mirror } from '@flynn/store/mirror';
import type { AppResource } from '../resources.ts';
import { beginPlan } from './beginning.ts';
import { slots } from './lanes.ts';
import { wholeMs } from './making.ts';
import type { DumpBlobs } from './making.ts';
import { stepDatastore } from './steps.ts';
import type { StepDeps } from './subject.ts';
import { Turns } from './turns.ts';
import { backupPlanType, datastoreBackupType } from './types.ts';

/** Resolves when the signal aborts. */
export async function keepDatastores(
  deps: StepDeps,
  blobs: DumpBlobs,
  { apps, signal, epoch }: { apps: Mirror<AppResource>; signal: AbortSignal; epoch: Compare },
): Promise<void> {
  await using plans = await deps.resources.mirror(backupPlanType, { signal });
  await using records = await deps.resources.mirror(datastoreBackupType, { signal });
  const datastores = keysOf(apps, ({ id, spec }) => (spec.datastore === undefined ? [] : [id]));
  const turns = new Turns();
  const common = { log: deps.log };
  const tasks = [
    reconciling({
      ...common,
      name: 'plans of datastores',
      sources: [datastores],
      reconcile: (id, { signal: run }) => beginPlan(deps, id, { signal: run, epoch }),
    }),
    ...(['restores', 'asked', 'scheduled'] as const).map((lane) =>
      reconciling({
        ...common,
        name: `datastores, ${lane}`,
        sources: [datastores, keysOf(plans), keysOf(records, ({ owner }) => (owner === undefined ? [] : [owner.id]))],
        concurrency: slots[lane],
        // What is made, and what is put back, has deadlines of its own.
        deadlineMs: 2 * wholeMs,
        reconcile: (id, { signal: run }) => stepDatastore(deps, blobs, id, { signal: run, epoch, lane, turns }),
      }),
    ),
  ];
  await superviseAll(tasks, { log: deps.log, signal });
}
