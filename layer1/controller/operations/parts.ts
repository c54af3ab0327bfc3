/** The parts that deal with operations, put together: the queue follows the mirror, who asks is served when it changes. */
import type { Logger } from '@flynn/kit/log';
import type { ResourceService } from '@flynn/resource/service';
import type { Store } from '@flynn/store/store';
import type { Deps } from '../deps.ts';
import { OperationDispatch } from './dispatch.ts';
import { OperationHistory } from './history.ts';
import { OperationQueue } from './queue.ts';
import { OperationWriter } from './writer.ts';
import { operationType, runnerType } from '../resources.ts';
import { runnerEnvType } from '../runner-env/resource.ts';
import { forgotten, notAdopted } from './runner-refusals.ts';

export type OperationParts = Pick<
  Deps,
  'operations' | 'queue' | 'writer' | 'dispatch' | 'history' | 'runners' | 'runnerEnvs'
>;

/** Resolves once live operations and runners are known; what ended is read in the background. */
export async function openOperations(options: {
  store: Store;
  resources: ResourceService;
  log: Logger;
  now: () => number;
  signal?: AbortSignal;
}): Promise<AsyncDisposable & { parts: OperationParts }> {
  const { store, resources, log, now, signal } = options;
  const limits = signal === undefined ? {} : { signal };
  const queue = new OperationQueue();
  let wake = (): void => {};
  const onUnreadable = (ids: ReadonlySet<string>): void => {
    queue.setUnreadable(ids);
    wake();
  };
  const [operations, runners, runnerEnvs] = await Promise.all([
    resources.mirror(operationType, { ...limits, onUnreadable }),
    resources.mirror(runnerType, limits),
    resources.mirror(runnerEnvType, limits),
  ]);
  const history = new OperationHistory({ store, log });
  const writer = new OperationWriter({ store, operations, log, now, onEnded: (operation) => history.add(operation) });
  const dispatch = new OperationDispatch({ queue, writer, log });
  wake = () => dispatch.wake();
  operations.onChange(({ key, after }, { entries }) => {
    // Of several changes in one batch the last state counts.
    const entry = entries.get(key);
    queue.set(key, after === undefined ? undefined : entry?.value, entry?.createRevision ?? 0);
    if (entry === undefined) history.expect(key);
    dispatch.wake();
  });
  // Whichever controller was told to: who waits here hears of it.
  runners.onChange(({ key, after }) => {
    if (after === undefined) dispatch.refuse(key, forgotten(key));
    else if (after.status.state !== 'adopted') dispatch.refuse(key, notAdopted(after));
  });
  for (const [id, { value, createRevision }] of operations.snapshot.entries) queue.set(id, value, createRevision);
  return {
    parts: { operations, queue, writer, dispatch, history, runners, runnerEnvs },
    async [Symbol.asyncDispose]() {
      await Promise.all([operations, runners, runnerEnvs, history].map((part) => part[Symbol.asyncDispose]()));
    },
  };
}
