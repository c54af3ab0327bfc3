/** What is to be done next on this host? Pure: desired and actual state in, steps out; done steps change the state. */
import type { HostJob, JobStatus } from '@flynn/scheduler/cell';
import type { DesiredJob } from './assigned.ts';
import type { Container } from '../engine/engine.ts';
import { label } from '../engine/labels.ts';
import { isStartDue } from './backoff.ts';
import { isEnded, isSettled, outcomeOfBroken, outcomeOfEnd, outcomeOfNothing, outcomeOfVanished } from './outcome.ts';
import { newRecord, recordOfContainer } from './record.ts';
import type { JobRecord, StopCause } from './record.ts';

export type Step =
  /** Create what is missing and start it; with `container`, start that one again. */
  | { type: 'start'; jobId: string; job: HostJob; container?: Container }
  /** It runs and this agent does not watch it yet. */
  | { type: 'adopt'; jobId: string; job: HostJob; container: Container }
  | { type: 'stop'; jobId: string; job?: HostJob; container: Container; cause: StopCause }
  /** Say what became of it. */
  | { type: 'settle'; jobId: string; record: JobRecord; status: JobStatus; failures: number }
  /** Take an ended container away. */
  | { type: 'remove'; jobId: string; container: Container }
  /** Take the status of an ended job back that nobody assigns any more. */
  | { type: 'forget'; jobId: string }
  /** Nothing now; plan again then. */
  | { type: 'wait'; jobId: string; untilMs: number };

export type PlanInput = {
  hostId: string;
  assigned: readonly DesiredJob[];
  /** Of this cluster and not resident. */
  containers: readonly Container[];
  records: ReadonlyMap<string, JobRecord>;
  /** Jobs with a step under way, planned again when it is through, and those of which not all is known. */
  busy: ReadonlySet<string>;
  /** Whether a container's log is read to its end. */
  isLogShipped: (container: Container) => boolean;
  /** How long a container has been running, by a clock that nobody sets. Default: by its start and `now`. */
  ageMsOf?: (container: Container) => number;
  now: number;
};

/** Ended jobs that stay, with their containers and logs, for people to look at. */
export const keptEndedJobs = 25;
/** A client that attaches to a job which has just ended still reads its output from the container. */
export const keptContainerMs = 15_000;
/** A job that begins anew waits so long for its log to be read to the end; its next run waits with it. */
export const anewMs = 60_000;
const anewLookMs = 1_000;
/** A log nobody takes keeps its container this long: without an end the disk would fill. */
export const unshippedMs = 3_600_000;

export function plan(input: PlanInput): Step[] {
  const assigned = new Map(input.assigned.map((job) => [job.id, job]));
  const containers = new Map(input.containers.map((container) => [jobIdOf(container), container]));
  const jobIds = new Set([...assigned.keys(), ...containers.keys(), ...input.records.keys()]);
  const steps = [...jobIds]
    .filter((jobId) => !input.busy.has(jobId))
    .flatMap((jobId) => planJob(jobId, assigned.get(jobId), containers.get(jobId), input));
  return [...steps, ...cleanUp(assigned, containers, input)];
}

export function jobIdOf(container: Container): string {
  return container.labels[label.job] ?? container.name;
}

function planJob(
  jobId: string,
  job: DesiredJob | undefined,
  container: Container | undefined,
  { hostId, records, isLogShipped, ageMsOf, now }: PlanInput,
): Step[] {
  const record = records.get(jobId) ?? blankRecord(job, container, hostId);
  if (record === undefined) return [];
  const isWanted = job?.desired === 'run' && !record.status.isFinal;
  if (container?.state === 'running') {
    const ageMs = ageMsOf?.(container) ?? now - (container.startedAtMs ?? now);
    if (isWanted && !records.has(jobId) && job.template === undefined && job.problem.isUnreadable) {
      // Nor can its status be read, where it has one: else nobody could see it, or stop it.
      return [{ type: 'settle', jobId, record, status: runningStatus(record, container), failures: 0 }];
    }
    return planRunning(jobId, job, container, record, isWanted, ageMs, now);
  }
  if (container?.state === 'exited' && !record.status.isFinal && !isSettled(record.status, container)) {
    return [{ type: 'settle', jobId, record, ...outcomeOfEnd(job, container, record, now) }];
  }
  if (!isWanted) {
    if (record.status.isFinal) return [];
    return [{ type: 'settle', jobId, record, ...outcomeOfNothing(record, now) }];
  }
  if (job.template === undefined) return [{ type: 'settle', jobId, record, ...outcomeOfBroken(job, record, now) }];
  const { nextStartAt = 0, startedAt } = record.status;
  if (container === undefined && startedAt !== undefined && !isEnded(record.status)) {
    return [{ type: 'settle', jobId, record, ...outcomeOfVanished(job, startedAt, record, now) }];
  }
  if (container?.state === 'exited' && record.beginsAnew === true) {
    const isLogKept = !isLogShipped(container) && now - endOf(container, record) < anewMs;
    return isLogKept ? [{ type: 'wait', jobId, untilMs: now + anewLookMs }] : [{ type: 'remove', jobId, container }];
  }
  if (!isStartDue(nextStartAt, now)) return [{ type: 'wait', jobId, untilMs: nextStartAt }];
  return [{ type: 'start', jobId, job, ...(container === undefined ? {} : { container }) }];
}

function planRunning(
  jobId: string,
  job: DesiredJob | undefined,
  container: Container,
  record: JobRecord,
  isWanted: boolean,
  ageMs: number,
  now: number,
): Step[] {
  const stop = (cause: StopCause): Step[] => [
    { type: 'stop', jobId, container, cause, ...(job?.template === undefined ? {} : { job }) },
  ];
  if (!isWanted || job === undefined) return stop({ type: 'unwanted' });
  if (job.template === undefined && !job.problem.isUnreadable) return stop({ type: 'unwanted' });
  if (record.stopCause !== undefined) return stop(record.stopCause);
  // It may not be started again by what this version can read, and runs for as long as it does.
  if (job.template === undefined) return [];
  // One that somebody restarted is another run, perhaps at another address.
  const isWatched = record.isWatched && (container.startedAtMs ?? record.status.startedAt) === record.status.startedAt;
  const steps: Step[] = isWatched ? [] : [{ type: 'adopt', jobId, job, container }];
  if (job.template.maxRuntimeMs === undefined) return steps;
  const untilMs = now + job.template.maxRuntimeMs - ageMs;
  return untilMs <= now ? stop({ type: 'expired' }) : [...steps, { type: 'wait', jobId, untilMs }];
}

/** What is known of a job that runs and cannot be watched. */
function runningStatus({ status }: JobRecord, { address, startedAtMs, createdAtMs }: Container): JobStatus {
  const at = address === undefined ? {} : { address };
  return { ...status, ...at, state: 'running', startedAt: startedAtMs ?? createdAtMs };
}

function blankRecord(
  job: DesiredJob | undefined,
  container: Container | undefined,
  hostId: string,
): JobRecord | undefined {
  if (job !== undefined) return newRecord(job, hostId, container);
  // An ended container nobody knows says nothing worth telling; it is only cleaned up.
  return container?.state === 'running' ? recordOfContainer(container, hostId) : undefined;
}

function cleanUp(
  assigned: ReadonlyMap<string, DesiredJob>,
  containers: ReadonlyMap<string, Container>,
  { records, busy, isLogShipped, now }: PlanInput,
): Step[] {
  const ended = [...new Set([...containers.keys(), ...records.keys()])]
    .filter((jobId) => !busy.has(jobId))
    .filter((jobId) => isOver(containers.get(jobId), records.get(jobId), assigned.has(jobId)))
    .map((jobId) => ({ jobId, endedAt: endOf(containers.get(jobId), records.get(jobId)) }))
    .sort((a, b) => b.endedAt - a.endedAt);
  return ended.flatMap(({ jobId, endedAt }, index): Step[] => {
    const container = containers.get(jobId);
    const isOld = index >= keptEndedJobs;
    if (container === undefined) return isOld && !assigned.has(jobId) ? [{ type: 'forget', jobId }] : [];
    const untilMs = endedAt + keptContainerMs;
    if (!isOld && assigned.has(jobId)) return [];
    if (!isOld && untilMs > now) return [{ type: 'wait', jobId, untilMs }];
    return isLogShipped(container) || endedAt + unshippedMs <= now ? [{ type: 'remove', jobId, container }] : [];
  });
}

function isOver(container: Container | undefined, record: JobRecord | undefined, isAssigned: boolean): boolean {
  if (container?.state === 'running') return false;
  return record === undefined ? !isAssigned : record.status.isFinal;
}

function endOf(container: Container | undefined, record: JobRecord | undefined): number {
  return record?.status.endedAt ?? container?.endedAtMs ?? container?.createdAtMs ?? 0;
}
