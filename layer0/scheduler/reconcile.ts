/** What has to be done so that a workload's jobs become those it asks for? */
import type { JobStatus, Workload } from './cell.ts';
import type { PlacedJob } from './snapshot.ts';

/** A job to be placed. */
export type Slot = Readonly<{
  index: number;
  /** It may go nowhere else. */
  hostId?: string;
  /** Where the slot's job was before, and its volumes are. */
  preferHostId?: string;
}>;

export type Decision = Readonly<{
  place: readonly Slot[];
  /** Jobs to be told to stop. */
  stop: readonly PlacedJob[];
  /** Ended jobs to be taken out of claims and assignments. */
  release: readonly PlacedJob[];
  /** Something was held back until then because jobs keep failing. */
  retryAt?: number;
  /** An ephemeral workload had its run: it asks for nothing any more. */
  isFinished?: boolean;
}>;

export type ReconcileInput = Readonly<{
  placed: readonly PlacedJob[];
  /** Of the workload's jobs, also of those released already. */
  statuses: readonly JobStatus[];
  lostHosts: ReadonlySet<string>;
  now: number;
}>;

/** The jobs of a workload by what can be expected of them. */
export type Jobs = Readonly<{
  /** Told to run, and not ended for good. */
  active: readonly PlacedJob[];
  /** Told to stop, not ended yet. */
  stopping: readonly PlacedJob[];
  /** Never running again: said so by their host, or their host is lost. */
  ended: readonly PlacedJob[];
}>;

export const nothing: Decision = Object.freeze({ place: [], stop: [], release: [] });

export function sortJobs(placed: readonly PlacedJob[], lostHosts: ReadonlySet<string>): Jobs {
  const active: PlacedJob[] = [];
  const stopping: PlacedJob[] = [];
  const ended: PlacedJob[] = [];
  for (const one of placed) {
    if (one.status?.isFinal === true || lostHosts.has(one.hostId)) ended.push(one);
    else if (one.job.desired === 'stop') stopping.push(one);
    else active.push(one);
  }
  return { active, stopping, ended };
}

export function isRunning(one: PlacedJob): boolean {
  return one.status?.state === 'running';
}

/** A workload that is gone: everything stops, and is let go as it ends. */
export function reconcileRemoved(input: ReconcileInput): Decision {
  const { active, ended } = sortJobs(input.placed, input.lostHosts);
  return { place: [], stop: active, release: ended };
}

/** Placed once, whatever becomes of it; a lost host loses the job. */
export function reconcileEphemeral(workload: Workload, input: ReconcileInput): Decision {
  const { active, stopping, ended } = sortJobs(input.placed, input.lostHosts);
  if (workload.count === 0) return { place: [], stop: active, release: ended };
  if (ended.length > 0 && active.length + stopping.length === 0) {
    return { place: [], stop: [], release: ended, isFinished: true };
  }
  const place = input.placed.length > 0 ? [] : Array.from({ length: workload.count }, (_, index) => ({ index }));
  return { place, stop: [], release: ended };
}

const failureMemoryMs = 10 * 60_000;
const maxBackoffMs = 60_000;

/**
 * When the workload's version may be placed again. The first failure is replaced at once, each further one within ten
 * minutes doubles the wait from one second up to a minute. A job that ended well although told to run waits a second.
 */
export function nextPlacementAt(workload: Workload, input: ReconcileInput): number {
  const failures = input.statuses.filter(
    (status) =>
      status.version === workload.version &&
      status.isFinal &&
      (status.state === 'failed' || status.state === 'crashed') &&
      (status.endedAt ?? status.createdAt) > input.now - failureMemoryMs,
  );
  const lastFailure = Math.max(0, ...failures.map((status) => status.endedAt ?? status.createdAt));
  const waitMs = failures.length < 2 ? 0 : Math.min(maxBackoffMs, 1_000 * 2 ** Math.min(failures.length - 2, 10));
  const lastDone = Math.max(
    0,
    ...input.placed
      .filter(({ job, status }) => job.desired === 'run' && status?.isFinal === true && status.state === 'done')
      .map(({ status }) => status?.endedAt ?? 0),
  );
  // A host whose clock runs ahead cannot hold a workload back for longer than the longest wait.
  return Math.min(Math.max(lastFailure + waitMs, lastDone === 0 ? 0 : lastDone + 1_000), input.now + maxBackoffMs);
}

/**
 * Holds placements back while jobs keep failing. What ended on a host that is there stays assigned meanwhile: it is how
 * the next evaluation knows what it waits for, and on which host the slot's volumes are.
 */
export function withBackoff(decision: Decision, workload: Workload, input: ReconcileInput): Decision {
  if (decision.place.length === 0) return decision;
  const retryAt = nextPlacementAt(workload, input);
  if (retryAt <= input.now) return decision;
  const release = decision.release.filter(({ hostId }) => input.lostHosts.has(hostId));
  return { ...decision, place: [], release, retryAt };
}
