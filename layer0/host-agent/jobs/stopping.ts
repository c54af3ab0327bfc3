/** Ends a job's container once nobody is on the way to it. */
import { systemClock } from '@flynn/kit/clock';
import type { HostJob } from '@flynn/scheduler/cell';
import { withdraw } from '../discovery/announcer.ts';
import { announcedNamesOf } from '../health/health.ts';
import { newRecord, recordOfContainer } from './record.ts';
import type { StepContext, StepOf } from './steps.ts';

/** For a container nobody can say any more how long it may take. */
const defaultStopTimeoutMs = 30_000;
const routersDeadlineMs = 5_000;
/** While one with a volume of its own stops nobody stands in for it. */
const aloneDrainMs = 5_000;

/**
 * Out of discovery, out of every router's table, requests under way are answered, TERM, patience, KILL. It is said to be
 * stopping when no router chooses it any more: whoever waits for that is not answered by it afterwards, and does not wait for
 * what others asked.
 */
export async function stopJob(step: StepOf<'stop'>, context: StepContext, signal: AbortSignal): Promise<void> {
  const { jobId, job, container, cause } = step;
  const { jobs, engine, endings, containers, monitors, host } = context;
  const record = jobs.get(jobId) ?? (job ? newRecord(job, host.hostId) : recordOfContainer(container, host.hostId));
  // What a person already was told stays the reason.
  jobs.set({ ...record, stopCause: cause });
  const monitor = monitors.get(jobId);
  if (monitor !== undefined) await monitor.stop({ keepAnnounced: false });
  else if (job !== undefined) await withdrawAll(job, context);
  monitors.delete(jobId);
  jobs.update(jobId, (was) => ({ ...was, isWatched: false }));
  // Never announced or already unhealthy: no requests are in flight.
  const drainMs = cause.type === 'unhealthy' ? 0 : (job?.template.drainMs ?? 0);
  const drained = drainMs > 0 ? systemClock.sleep(drainMs, { signal }) : undefined;
  const left = async () => {
    if (cause.type !== 'unhealthy' && job !== undefined) await untilDropped(job, context, signal);
    jobs.update(jobId, (was) => ({ ...was, status: { ...was.status, state: 'stopping' } }));
  };
  await Promise.all([drained, left()]);
  if (cause.type === 'unwanted' && job !== undefined) await untilAnswered(job, context, signal);
  await endings.stop(container.id, { timeoutMs: job?.template.stopTimeoutMs ?? defaultStopTimeoutMs, signal });
  containers.put(await engine.inspect(container.id, { signal }));
}

/** A router that cannot be asked keeps no job from being stopped. */
async function untilDropped(job: HostJob, { routers, log }: StepContext, signal: AbortSignal): Promise<void> {
  const services = announcedNamesOf(job);
  if (routers === undefined || services.length === 0) return;
  const word = { services: services.map((service) => ({ service, down: [job.id] })) };
  const missing = await routers.missing(word, { deadlineMs: routersDeadlineMs, signal });
  if (missing.length === 0) return;
  log.warn(
    { jobId: job.id, routers: missing },
    'these routers did not say that they dropped the job: stopping it anyway',
  );
}

/**
 * A program need not know how to end what it has begun: TERM comes when its requests are answered, or after as long as it may
 * take to stop. The platform's own parts end what they have by themselves, streams that never end too.
 */
async function untilAnswered(job: HostJob, { routers, log }: StepContext, signal: AbortSignal): Promise<void> {
  const { identity, stopTimeoutMs, volumes } = job.template;
  const services = announcedNamesOf(job);
  if (routers === undefined || services.length === 0 || identity !== undefined) return;
  const isAlone = volumes.some(({ isShared }) => isShared !== true);
  const deadlineMs = isAlone ? Math.min(stopTimeoutMs, aloneDrainMs) : stopTimeoutMs;
  const ended = services.map((service) => ({ service, ended: [job.id] }));
  try {
    if (await routers.haveEnded(ended, { deadlineMs, signal })) return;
    log.info({ jobId: job.id, deadlineMs }, 'requests are under way still: stopping the job anyway');
  } catch (error) {
    signal.throwIfAborted();
    log.warn({ err: error, jobId: job.id }, 'no router could be asked for requests under way: stopping the job anyway');
  }
}

/** Announced by an earlier life of the agent. */
async function withdrawAll(job: HostJob, { announcer, log }: StepContext): Promise<void> {
  await Promise.all(announcedNamesOf(job).map((service) => withdraw(announcer, service, job.id, { log })));
}
