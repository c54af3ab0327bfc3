/** The jobs of a release as the controller tells of them, until they are as wanted. */
import { setTimeout as sleep } from 'node:timers/promises';
import { platform } from '@flynn/controller/platform/api';
import { type Job, jobSchema } from '@flynn/controller/model';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { ServerEvent } from '@flynn/kit/routes';
import { z } from 'zod';

const changeSchema = z.object({ type: z.enum(['put', 'delete']), id: z.string(), object: jobSchema.optional() });
const pauseMs = 250;

export type Wanted = Readonly<Record<string, { count: number; isOmni: boolean }>>;

export type JobChange = { job: Job; what: 'up' | 'down' | 'crashed' | 'failed' | 'lost' };

const over: ReadonlySet<Job['state']> = new Set(['done', 'failed', 'lost']);
const underWay: ReadonlySet<Job['state']> = new Set(['pending', 'starting', 'stopping']);

/**
 * Exactly as many running as wanted, and none about to start or stop. A crashed job beyond those will not come back. Of an
 * omni type every host has one that it may be on, and how many these are is not known here.
 */
export function isReached(jobs: readonly Job[], wanted: Wanted): boolean {
  return Object.entries(wanted).every(([type, { count, isOmni }]) => {
    const present = jobs.filter((job) => job.type === type);
    if (present.some((job) => underWay.has(job.state))) return false;
    const up = present.filter((job) => job.state === 'running').length;
    return isOmni && count > 0 ? up > 0 : up === count;
  });
}

/** What is worth a line when a job goes from one state to another; `after` is undefined once nothing is known of it. */
export function changeOf(before: Job | undefined, after: Job | undefined): JobChange | undefined {
  const job = after ?? before;
  if (job === undefined || before?.state === after?.state) return undefined;
  const wasOver = before !== undefined && over.has(before.state);
  switch (after?.state) {
    case 'running':
      return { job, what: 'up' };
    case 'crashed':
    case 'lost':
      return { job, what: after.state };
    case 'failed':
      return { job, what: before?.state === 'stopping' ? 'down' : 'failed' };
    case 'done':
    case undefined:
      return before === undefined || wasOver ? undefined : { job, what: 'down' };
    case 'pending':
    case 'starting':
    case 'stopping':
    default:
      return undefined;
  }
}

/** INVARIANT. What is known is as the stream told it; a stream that broke is opened anew and tells everything again. */
export class JobWatch implements AsyncDisposable {
  readonly #client: HttpClient;
  readonly #app: string;
  readonly #releaseId: string;
  readonly #signal: AbortSignal;
  readonly #onChange: (change: JobChange) => void;
  readonly #jobs = new Map<string, Job>();
  #events: AsyncGenerator<ServerEvent, void, undefined> | undefined;

  constructor(options: {
    client: HttpClient;
    app: string;
    releaseId: string;
    signal: AbortSignal;
    onChange: (change: JobChange) => void;
  }) {
    this.#client = options.client;
    this.#app = options.app;
    this.#releaseId = options.releaseId;
    this.#signal = options.signal;
    this.#onChange = options.onChange;
  }

  /** Of the release, those that were told of and are not over. */
  get jobs(): Job[] {
    return [...this.#jobs.values()].filter((job) => !over.has(job.state));
  }

  /** Reads the current jobs. What changed since an earlier call is told. */
  async open(): Promise<void> {
    await this.#close();
    const query = { app: this.#app, types: 'job' };
    this.#events = this.#client.events(platform.events, { query }, { signal: this.#signal });
    const isFirst = this.#jobs.size === 0;
    const current = new Map<string, Job>();
    for (;;) {
      const event = await this.#next();
      if (event.event === 'current') break;
      const { id, object } = changeSchema.parse(event.data);
      if (object?.releaseId === this.#releaseId) current.set(id, object);
    }
    for (const id of new Set([...this.#jobs.keys(), ...current.keys()])) {
      this.#take(id, current.get(id), { isTold: !isFirst });
    }
  }

  /** Throws `timeout` when the signal aborts before. */
  async until(hasArrived: (jobs: readonly Job[]) => boolean): Promise<void> {
    while (!hasArrived(this.jobs)) {
      try {
        if (this.#events === undefined) await this.open();
        else this.#takeEvent(await this.#next());
      } catch (error) {
        if (this.#signal.aborted) throw new FlynnError('timeout', 'the jobs are not as wanted', { cause: error });
        if (!hasCode(error, 'unavailable', 'timeout', 'conflict')) throw error;
        await this.#close();
        await sleep(pauseMs);
      }
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#close();
  }

  async #close(): Promise<void> {
    const events = this.#events;
    this.#events = undefined;
    await events?.return();
  }

  async #next(): Promise<ServerEvent> {
    const next = await this.#events?.next();
    if (next === undefined || next.done) throw new FlynnError('unavailable', "the controller's events ended");
    return next.value;
  }

  #takeEvent(event: ServerEvent): void {
    if (event.event !== 'job') return;
    const { type, id, object } = changeSchema.parse(event.data);
    if (type === 'put' && object?.releaseId !== this.#releaseId) return;
    this.#take(id, type === 'put' ? object : undefined, { isTold: true });
  }

  #take(id: string, after: Job | undefined, { isTold }: { isTold: boolean }): void {
    const change = changeOf(this.#jobs.get(id), after);
    if (after === undefined) this.#jobs.delete(id);
    else this.#jobs.set(id, after);
    if (change !== undefined && isTold) this.#onChange(change);
  }
}
