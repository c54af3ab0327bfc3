/** Sees to it that every operation ends: nobody holds one in silence, and none waits beyond its time. */
import { workloadRemoval } from '@flynn/scheduler/evaluations';
import type { Compare } from '@flynn/store/store';
import { buildWorkloadId } from '../builds/compile.ts';
import type { Loss } from '../model.ts';
import { evaluationContext } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { findOperation } from './records.ts';
import { hasOperationEnded } from './state.ts';
import type { OperationEvent } from './state.ts';
import { ignoreOvertaken } from './writer.ts';
import type { OperationResource } from '../resources.ts';

/** Heartbeats are written every 9 s or so: this long without a new one means 30 s of silence. */
export const silenceMs = 39_000;
/** A runner says at once that it begins. */
export const acknowledgeMs = 10_000;

export type Timeouts = { silenceMs: number; acknowledgeMs: number };
type Options = { signal: AbortSignal; epoch?: Compare };
type WatchDeps = Pick<Deps, 'operations' | 'writer' | 'now' | 'log'> & {
  /** Milliseconds since some moment: never put right, as the time of day is. */
  steadyNow?: () => number;
  /** Of one whose runner is lost, if it may be begun again. */
  lossOf?: (operation: OperationResource) => Loss | undefined;
};

/**
 * INVARIANT. Silence is measured by this process's steady clock, from when it saw the last sign of life: clocks that differ
 * or jump fail nobody's work, and a new worker gives every runner the whole time again. There are no timers: what is
 * overdue follows from the operation as it is now, so nothing of an earlier attempt can end a later one.
 */
export class OperationWatch {
  readonly #deps: WatchDeps;
  readonly #timeouts: Timeouts;
  readonly #seen = new Map<string, { sign: string; atMs: number }>();

  constructor(deps: WatchDeps, timeouts: Timeouts = { silenceMs, acknowledgeMs }) {
    this.#deps = deps;
    this.#timeouts = timeouts;
  }

  /** One look at all that is live. What cannot be ended keeps nothing else from it, and all of that is told. */
  async sweep(options: Options): Promise<void> {
    const { operations, writer, log } = this.#deps;
    const { entries } = operations.snapshot;
    for (const id of this.#seen.keys()) if (!entries.has(id)) this.#seen.delete(id);
    const due: [string, OperationEvent][] = [];
    for (const [id, { value }] of entries) {
      const event = this.#dueOf(value);
      if (event !== undefined) due.push([id, event]);
    }
    const apply = async ([id, event]: [string, OperationEvent]): Promise<void> => {
      log.info({ operation: id, event: event.type }, 'an operation is overdue');
      await writer.apply(id, event, options).catch(ignoreOvertaken);
    };
    const outcomes = await Promise.allSettled(due.map(apply));
    const failures = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason as unknown] : []));
    if (failures.length > 0) throw new AggregateError(failures);
  }

  #dueOf(operation: OperationResource): OperationEvent | undefined {
    const { id, spec, status } = operation;
    const { now, steadyNow = () => performance.now() } = this.#deps;
    const { state, attempt = 0, heartbeatAt = 0, expiresAt, runnerId = 'its runner' } = status;
    if (state !== 'running' && expiresAt !== undefined && Date.parse(expiresAt) <= now())
      return { type: 'expire', expiresAt };
    if (state === 'queued') {
      this.#seen.delete(id);
      return undefined;
    }
    const sign = `${state} ${attempt} ${heartbeatAt}`;
    const known = this.#seen.get(id);
    const nowMs = steadyNow();
    if (known?.sign !== sign) this.#seen.set(id, { sign, atMs: nowMs });
    const silentMs = known?.sign === sign ? nowMs - known.atMs : 0;
    if (state === 'waiting')
      return silentMs >= this.#timeouts.acknowledgeMs ? { type: 'unacknowledged', attempt } : undefined;
    if (silentMs < this.#timeouts.silenceMs) return undefined;
    const reason = `heartbeat timeout: ${runnerId} was not heard of for 30 s and is taken to be lost: start it again, then repeat the ${spec.kind}`;
    return { type: 'silence', reason, heartbeatAt, loss: this.#deps.lossOf?.(operation) };
  }
}

/** What nobody waits for any more is stopped: of a build that was lost the jobs before, and all of one that did not come about. */
export async function stopLeftBuilds(deps: Deps, id: string, { signal, epoch }: Options): Promise<void> {
  const { cell, store } = deps;
  const operation = await findOperation(store, id, { signal });
  if (operation === undefined || operation.spec.kind !== 'build') return;
  const { state, losses = [] } = operation.status;
  const isLeft = hasOperationEnded(state) && state !== 'complete';
  for (let lost = 0; lost < losses.length + (isLeft ? 1 : 0); lost += 1) {
    const workloadId = buildWorkloadId(operation.spec.appId, id, lost);
    if ((cell.workloads.snapshot.entries.get(workloadId)?.value.count ?? 0) === 0) continue;
    await store.transact(
      { compare: epoch === undefined ? [] : [epoch], then: workloadRemoval(workloadId, evaluationContext(deps)) },
      { signal },
    );
  }
}
