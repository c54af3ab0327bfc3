/** When is a job that ended of its own accord replaced? */
import type { Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import { earliest } from './reconcile.ts';
import type { Decision, ReconcileInput } from './reconcile.ts';

export type Verdict =
  | Readonly<{ kind: 'now' }>
  | Readonly<{ kind: 'later'; at: number }>
  | Readonly<{ kind: 'never'; reason: string }>;

/** Ended although it was told to run, on a host that is there: replacing it follows the workload's policy. */
export function isFailing(one: PlacedJob, workload: Workload, lostHosts: ReadonlySet<string>): boolean {
  const { status } = one;
  if (status?.isFinal !== true || one.desired === 'stop') return false;
  if (one.version !== workload.version || lostHosts.has(one.hostId)) return false;
  return status.state === 'failed' || status.state === 'crashed' || status.state === 'done';
}

/**
 * The n-th failure of the workload's version within its interval waits `delayMs` × 2^(n−1). One job more than `attempts`
 * that failed within an interval is the last: the version is not placed again in its stead. A job that ended well
 * although told to run waits `delayMs`.
 */
export function judgeReschedule(workload: Workload, input: ReconcileInput): Verdict {
  const { attempts, intervalMs, delayMs, maxDelayMs } = workload.reschedule;
  let lastFailure = 0;
  let lastDone = 0;
  let lastCreated = 0;
  const failures: number[] = [];
  for (const { state, version, endedAt, createdAt } of input.ended) {
    if (version !== workload.version) continue;
    // Made by a scheduler whose clock was ahead: waited for, it would be for as long as that was.
    if (createdAt > input.now + maxDelayMs) continue;
    lastCreated = Math.max(lastCreated, createdAt);
    const at = endedAt ?? createdAt;
    if (state === 'done') lastDone = Math.max(lastDone, at);
    if (state !== 'failed' && state !== 'crashed') continue;
    failures.push(at);
    lastFailure = Math.max(lastFailure, at);
  }
  const count = failures.filter((at) => at > lastFailure - intervalMs).length;
  if (attempts !== undefined && count > attempts) {
    return { kind: 'never', reason: `failed ${count} times within ${durationText(intervalMs)}: not replaced any more` };
  }
  const waitMs = count === 0 ? 0 : Math.min(maxDelayMs, delayMs * 2 ** Math.min(count - 1, 30));
  const after = Math.max(lastFailure + waitMs, lastDone === 0 ? 0 : lastDone + Math.min(delayMs, maxDelayMs));
  // A host whose clock runs ahead says nothing of when: then it counts from when the scheduler made the job.
  const at = after > input.now + maxDelayMs ? lastCreated + waitMs : after;
  return at <= input.now ? { kind: 'now' } : { kind: 'later', at };
}

/** Adds when to look again, or that there is no again. */
export function withVerdict(
  decision: Decision,
  verdict: Verdict | undefined,
  deadlineAt: number | undefined,
): Decision {
  const retryAt = earliest(verdict?.kind === 'later' ? verdict.at : undefined, deadlineAt);
  return {
    ...decision,
    ...(retryAt === undefined ? {} : { retryAt }),
    ...(verdict?.kind === 'never' ? { gaveUp: verdict.reason } : {}),
  };
}

function durationText(ms: number): string {
  if (ms % 60_000 === 0) return `${ms / 60_000} min`;
  return `${ms / 1_000} s`;
}
