/** The records of this host's jobs: in memory for the plan, as statuses in the store for everybody else. */
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { cellKeys, jobStatusSchema } from '@flynn/scheduler/cell';
import type { JobStatus } from '@flynn/scheduler/cell';
import type { Store } from '@flynn/store/store';
import type { JobRecord } from './record.ts';
import { recordOfStatus } from './record.ts';

export type StatusSink = { put(status: JobStatus): void; delete(jobId: string): void };

export class JobTable {
  readonly #records = new Map<string, JobRecord>();
  readonly #sink: StatusSink;
  readonly #listeners = new Set<() => void>();

  constructor(sink: StatusSink) {
    this.#sink = sink;
  }

  get records(): ReadonlyMap<string, JobRecord> {
    return this.#records;
  }

  get(jobId: string): JobRecord | undefined {
    return this.#records.get(jobId);
  }

  /** What an earlier life of the agent wrote. A status that cannot be read is left alone. */
  async load(store: Store, hostId: string, log: Logger, signal: AbortSignal): Promise<void> {
    const { entries } = await store.list(cellKeys.hostStatus(hostId), { signal });
    for (const { key, value } of entries) {
      try {
        const status = jobStatusSchema.parse(JSON.parse(value));
        this.#records.set(status.id, recordOfStatus(status));
      } catch (error) {
        log.warn({ key }, `a job status in the store is not readable: ${messageOf(error)}`);
      }
    }
  }

  /** A changed status is written. */
  set(record: JobRecord): void {
    const before = this.#records.get(record.status.id);
    this.#records.set(record.status.id, record);
    if (before === undefined || JSON.stringify(before.status) !== JSON.stringify(record.status)) {
      this.#sink.put(record.status);
    }
    this.#tell();
  }

  /** One that is not there stays so. */
  update(jobId: string, change: (record: JobRecord) => JobRecord): void {
    const record = this.#records.get(jobId);
    if (record !== undefined) this.set(change(record));
  }

  forget(jobId: string): void {
    if (!this.#records.delete(jobId)) return;
    this.#sink.delete(jobId);
    this.#tell();
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }
}
