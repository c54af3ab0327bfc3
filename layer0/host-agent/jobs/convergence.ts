/** Makes the host's containers what its assignments say: look, plan, carry out, look again. */
import { pause, systemClock } from '@flynn/kit/clock';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { HostJob } from '@flynn/scheduler/cell';
import type { AssignedJobs, DesiredJob, Unread } from './assigned.ts';
import type { Container } from '../engine/engine.ts';
import { label, ownLabel } from '../engine/labels.ts';
import { jobIdOf, plan } from './plan.ts';
import type { Step } from './plan.ts';
import type { JobRecord } from './record.ts';
import { RepeatedFailures } from './repeated-failures.ts';
import { RunningTimes } from '../containers/running-times.ts';
import type { Standing } from '../fencing/standing.ts';
import { execute } from './steps.ts';
import type { StepContext } from './steps.ts';

const resyncMs = 30_000;
/** After a step that failed for reasons of the engine or the store, before the job is looked at again. */
const pauseMs = 1_000;
/** One container that the engine hangs over takes a part of it. */
const lookDeadlineMs = 60_000;
/** How soon a job that may not start now is looked at again. */
const heldBackMs = 200;

type Busy = { type: Step['type']; ending: AbortController };

/**
 * INVARIANTS. One step at a time per job. Nothing is planned while the engine is away, nor before the host's record is this
 * agent's or while it is another machine's, nor for a job of whose end the engine cannot tell, nor for one that nothing names
 * while an assignment which may have it cannot be read. The loop is level-triggered: a lost wake-up costs at most the resync
 * interval.
 */
export class Convergence {
  readonly #context: StepContext;
  readonly #assigned: AssignedJobs;
  readonly #isLogShipped: (container: Container) => boolean;
  readonly #mayStart: (job: HostJob) => boolean;
  readonly #standing: Standing;
  readonly #busy = new Map<string, Busy>();
  readonly #running = new Set<Promise<void>>();
  readonly #runningTimes = new RunningTimes();
  readonly #failures = new RepeatedFailures();
  #wake = Promise.withResolvers<void>();

  constructor(options: {
    context: StepContext;
    assigned: AssignedJobs;
    isLogShipped: (container: Container) => boolean;
    mayStart: (job: HostJob) => boolean;
    standing: Standing;
  }) {
    this.#context = options.context;
    this.#assigned = options.assigned;
    this.#isLogShipped = options.isLogShipped;
    this.#mayStart = options.mayStart;
    this.#standing = options.standing;
  }

  /** Resolves when the signal aborts and no step is under way any more. Containers and announcements stay. */
  async run(signal: AbortSignal): Promise<void> {
    const wake = () => this.#wake.resolve();
    const { containers, jobs, monitors } = this.#context;
    const stops = [
      this.#assigned.onChange(wake),
      containers.onChange(wake),
      jobs.onChange(wake),
      this.#standing.onStand(wake),
    ];
    signal.addEventListener('abort', wake, { once: true });
    while (!signal.aborted) {
      this.#wake = Promise.withResolvers<void>();
      const nextMs = containers.isCurrent && this.#standing.mayAct ? this.#converge(signal) : resyncMs;
      const timer = setTimeout(wake, Math.max(0, Math.min(nextMs, resyncMs)));
      await this.#wake.promise;
      clearTimeout(timer);
    }
    for (const stop of stops) stop();
    await Promise.all(this.#running);
    await Promise.all([...monitors.values()].map((monitor) => monitor.stop({ keepAnnounced: true })));
  }

  /** Answers in how many milliseconds there is something to do. */
  #converge(signal: AbortSignal): number {
    const { containers, jobs, host } = this.#context;
    const now = systemClock.now();
    const { jobs: assigned, unresolved, unread } = this.#assigned.current();
    this.#endUnwantedStarts(assigned, unread);
    const all = containers.assigned();
    const unnamed = unnamedJobs(assigned, unread, all, jobs.records);
    this.#runningTimes.keepOnly(new Set(all.map(({ id }) => id)));
    const steps = plan({
      hostId: host.hostId,
      assigned: [...assigned.values()],
      containers: all,
      records: jobs.records,
      busy: new Set([...this.#busy.keys(), ...unresolved, ...unnamed, ...all.filter(isEndUnclear).map(jobIdOf)]),
      isLogShipped: this.#isLogShipped,
      ageMsOf: (container) => this.#runningTimes.ageMsOf(container),
      now,
    });
    let nextMs = resyncMs;
    for (const step of steps) {
      if (step.type === 'wait') nextMs = Math.min(nextMs, step.untilMs - now);
      else if (step.type === 'start' && !this.#mayStart(step.job)) nextMs = Math.min(nextMs, heldBackMs);
      else this.#begin(step, signal);
    }
    return Math.max(0, nextMs);
  }

  /** What this host is to run, as it is known now: jobs whose templates are there. */
  get assigned(): readonly HostJob[] {
    return [...this.#assigned.current().jobs.values()].filter((job) => job.template !== undefined);
  }

  /** Pulling an image may take minutes that nobody is interested in any more. */
  #endUnwantedStarts(assigned: ReadonlyMap<string, DesiredJob>, unread: Unread): void {
    for (const [jobId, { type, ending }] of this.#busy) {
      const workloadId = this.#context.jobs.get(jobId)?.status.workloadId;
      const desired = assigned.get(jobId)?.desired ?? (mayHave(unread, workloadId) ? 'run' : 'stop');
      if (type === 'start' && desired !== 'run') ending.abort();
    }
  }

  #begin(step: Step, signal: AbortSignal): void {
    const ending = new AbortController();
    this.#busy.set(step.jobId, { type: step.type, ending });
    const running = this.#carryOut(step, { signal, ending: ending.signal }).finally(() => {
      this.#busy.delete(step.jobId);
      this.#running.delete(running);
      this.#wake.resolve();
    });
    this.#running.add(running);
  }

  async #carryOut(step: Step, { signal, ending }: { signal: AbortSignal; ending: AbortSignal }): Promise<void> {
    await this.#execute(step, AbortSignal.any([signal, ending]));
    if (ending.aborted) await this.#look(step.jobId, signal);
  }

  /**
   * The engine may go on with a start that was broken off: the next plan has to see it, or it would call a job over whose
   * container is only just coming up. Until the engine tells, nothing is planned for the job.
   */
  async #look(jobId: string, signal: AbortSignal): Promise<void> {
    const { containers, log } = this.#context;
    while (!signal.aborted) {
      try {
        return await containers.refresh(withDeadline(lookDeadlineMs, signal));
      } catch (error) {
        log.debug({ err: error, jobId }, 'what became of a start that was broken off is not known yet');
        await pause(pauseMs, signal);
      }
    }
  }

  async #execute(step: Step, signal: AbortSignal): Promise<void> {
    try {
      await execute(step, this.#context, signal);
      this.#failures.succeeded(step.jobId);
    } catch (error) {
      if (signal.aborted) return;
      this.#tellFailure(step, messageOf(error));
      await pause(pauseMs, signal);
    }
  }

  #tellFailure({ jobId, type }: Step, why: string): void {
    const times = this.#failures.failed(jobId, `${type}: ${why}`, performance.now());
    if (times === undefined) return;
    const soFar = times === 1 ? '' : ` (${times} times by now)`;
    this.#context.log.warn({ jobId, step: type }, `${type} failed, trying again${soFar}: ${why}`);
  }

  /** Ends the job's container; what then becomes of the job is the assignment's affair. */
  requestStop(jobId: string): void {
    const { containers, jobs } = this.#context;
    const container = containers.ofJob(jobId);
    if (container === undefined || jobs.get(jobId) === undefined) {
      throw new FlynnError('not_found', `there is no job ${jobId} on this host`);
    }
    if (container.state !== 'running') throw new FlynnError('conflict', `the job ${jobId} is not running`);
    jobs.update(jobId, (record) => ({ ...record, stopCause: record.stopCause ?? { type: 'requested' } }));
  }
}

/** How it ended nobody would ever know again, once something was concluded. */
function isEndUnclear({ state, isUnclear = false }: Container): boolean {
  return isUnclear && state !== 'running';
}

function mayHave(unread: Unread, workloadId: string | undefined): boolean {
  return unread === 'any' || (workloadId === undefined ? unread.size > 0 : unread.has(workloadId));
}

/** Those that have not ended, and that an assignment which cannot be read may name: they stay as they are. */
function unnamedJobs(
  assigned: ReadonlyMap<string, DesiredJob>,
  unread: Unread,
  containers: readonly Container[],
  records: ReadonlyMap<string, JobRecord>,
): string[] {
  const workloads = new Map<string, string | undefined>();
  for (const container of containers) workloads.set(jobIdOf(container), ownLabel(container.labels, label.workload));
  for (const [id, { status }] of records) workloads.set(id, status.workloadId);
  return [...workloads]
    .filter(([id, workloadId]) => !assigned.has(id) && mayHave(unread, workloadId))
    .filter(([id]) => records.get(id)?.status.isFinal !== true)
    .map(([id]) => id);
}
