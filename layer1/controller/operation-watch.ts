/** Sees to it that every operation ends: a runner that goes silent loses what it holds. */
import type { Again } from '@flynn/resource/reconciler';
import { workloadRemoval } from '@flynn/scheduler/evaluations';
import type { Compare } from '@flynn/store/store';
import { buildWorkloadId } from './compile.ts';
import { evaluationContext } from './deps.ts';
import type { Deps } from './deps.ts';
import { endOperation } from './operation-end.ts';
import { hasOperationEnded } from './operation-queue.ts';
import type { OperationResource } from './resources.ts';

/** Heartbeats are written every 9 s or so: this long without a new one means 30 s of silence. */
export const silenceMs = 39_000;

type Options = { signal: AbortSignal; epoch?: Compare };

/**
 * INVARIANT. Silence is measured by this process's clock, from when it saw the last heartbeat: hosts whose clocks differ
 * do not fail each other's work, and a new worker gives every runner the whole time again.
 */
export class OperationWatch {
  readonly #deps: Deps;
  readonly #seen = new Map<string, { heartbeatAt: number; seenMs: number }>();

  constructor(deps: Deps) {
    this.#deps = deps;
  }

  async step(id: string, options: Options): Promise<void | Again> {
    const { operations, now } = this.#deps;
    const operation = operations.snapshot.entries.get(id)?.value;
    if (operation?.status.state !== 'running') {
      this.#seen.delete(id);
      if (operation !== undefined) await this.#stopBuild(operation, options);
      return undefined;
    }
    const heartbeatAt = operation.status.heartbeatAt ?? 0;
    const known = this.#seen.get(id);
    const seenMs = known?.heartbeatAt === heartbeatAt ? known.seenMs : now();
    this.#seen.set(id, { heartbeatAt, seenMs });
    const leftMs = seenMs + silenceMs - now();
    if (leftMs > 0) return { againInMs: leftMs };
    const runner = operation.status.runnerId ?? 'its runner';
    const error = `${runner} was not heard of for 30 s and is taken to be lost: start it again, then repeat the ${operation.spec.kind}`;
    await endOperation(this.#deps, operation, { state: 'failed', error }, options);
    return undefined;
  }

  /** A build nobody waits for any more. */
  async #stopBuild({ id, spec, status }: OperationResource, { signal, epoch }: Options): Promise<void> {
    const { cell, store } = this.#deps;
    if (spec.kind !== 'build' || status.state === 'complete' || !hasOperationEnded(status.state)) return;
    const workloadId = buildWorkloadId(spec.appId, id);
    if ((cell.workloads.snapshot.entries.get(workloadId)?.value.count ?? 0) === 0) return;
    await store.transact(
      { compare: epoch === undefined ? [] : [epoch], then: workloadRemoval(workloadId, evaluationContext(this.#deps)) },
      { signal },
    );
  }
}
