/** Writes job statuses to the store: the latest of each job, many in one transaction. */
import { pause, systemClock } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import { backoffMs } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import type { JobStatus } from '@flynn/scheduler/cell';
import { evaluationPut } from '@flynn/scheduler/evaluations';
import type { Operation, Store } from '@flynn/store/store';
import type { Standing } from '../fencing/standing.ts';

/** Long enough that jobs that change together are written together. */
const lingerMs = 2;
/** With an evaluation each, below the 128 operations a transaction of etcd may have. */
const batchSize = 50;

type Pending = { status: JobStatus | undefined; isEnd: boolean };

/**
 * INVARIANTS. The last status given for a job is the one that ends up in the store; earlier ones may be left out. A
 * status that ends a job is written together with an evaluation of its workload. A failed write is repeated. What is given while
 * the host's record is not known to be this agent's waits.
 */
export class StatusWriter {
  readonly #store: Store;
  readonly #hostId: string;
  readonly #standing: Standing;
  readonly #log: Logger;
  #pending = new Map<string, Pending>();
  #wake = Promise.withResolvers<void>();
  #isWriting = false;

  constructor(options: { store: Store; hostId: string; standing: Standing; log: Logger }) {
    this.#store = options.store;
    this.#hostId = options.hostId;
    this.#standing = options.standing;
    this.#log = options.log;
  }

  put(status: JobStatus): void {
    const isEnd = status.isFinal || this.#pending.get(status.id)?.isEnd === true;
    this.#enqueue(status.id, { status, isEnd });
  }

  delete(jobId: string): void {
    this.#enqueue(jobId, { status: undefined, isEnd: false });
  }

  get isIdle(): boolean {
    return this.#pending.size === 0 && !this.#isWriting;
  }

  #enqueue(jobId: string, pending: Pending): void {
    this.#pending.set(jobId, pending);
    this.#wake.resolve();
  }

  /** Resolves when the signal aborts; what is pending then gets one more try. */
  async run(signal: AbortSignal): Promise<void> {
    // A race against the signal at each turn would be remembered by it for as long as the agent lives.
    signal.addEventListener('abort', () => this.#wake.resolve(), { once: true });
    const off = this.#standing.onStand(() => this.#wake.resolve());
    let failures = 0;
    while (!signal.aborted) {
      await this.#wake.promise;
      await systemClock.sleep(lingerMs);
      this.#wake = Promise.withResolvers<void>();
      while (this.#pending.size > 0 && this.#standing.mayTell && !signal.aborted) {
        if (await this.#write()) failures = 0;
        else {
          failures += 1;
          await pause(backoffMs(failures, { minMs: 50, maxMs: 2_000 }), signal);
        }
      }
    }
    off();
    if (this.#pending.size > 0 && this.#standing.mayTell) await this.#write();
  }

  async #write(): Promise<boolean> {
    const batch = [...this.#pending].slice(0, batchSize);
    for (const [jobId] of batch) this.#pending.delete(jobId);
    this.#isWriting = true;
    try {
      await this.#store.transact({ then: operationsOf(batch, this.#hostId) });
      return true;
    } catch (error) {
      this.#log.warn(`could not write ${batch.length} job statuses, trying again: ${messageOf(error)}`);
      for (const [jobId, pending] of batch) {
        const newer = this.#pending.get(jobId);
        this.#pending.set(jobId, newer === undefined ? pending : { ...newer, isEnd: newer.isEnd || pending.isEnd });
      }
      return false;
    } finally {
      this.#isWriting = false;
    }
  }
}

function operationsOf(batch: readonly [string, Pending][], hostId: string): Operation[] {
  const statuses = batch.map(([jobId, { status }]): Operation => {
    const key = cellKeys.jobStatus(hostId, jobId);
    return status === undefined ? { delete: key } : { put: key, value: JSON.stringify(status) };
  });
  // One look is enough for all of a workload's jobs that ended together.
  const workloads = new Set(batch.flatMap(([, { status, isEnd }]) => (isEnd && status ? [status.workloadId] : [])));
  const evaluations = [...workloads]
    .filter((workloadId) => workloadId !== '')
    .map((workloadId) => evaluationPut(workloadId, 'job_ended', { now: systemClock.now(), newId }));
  return [...statuses, ...evaluations];
}
