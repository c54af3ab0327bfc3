/**
 * How many jobs of a type does a deployment wait for, and which follow later? Pure. A job that may be anywhere is placed elsewhere
 * when its host goes, so it is waited for; one that is bound to a host that is away is so only for as long as that may be back.
 */
import type { Constraint, Workload } from '@flynn/scheduler/cell';
import { failedConstraint } from '@flynn/scheduler/feasible';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { hostAttribute } from '@flynn/scheduler/placement/host-classes';
import { matchingHosts, placedJobs, takesJobs } from '../mirrors/cell-view.ts';
import type { CellView } from '../mirrors/cell-view.ts';
import type { TypeState } from './rollout.ts';

/** An agent that lost its connection, or is replaced, is back by then; schedulers wait no longer either when most are away. */
const longestMs = 60_000;

/** For how long a deployment waits for a host that is away: without it there has to be time left to come about. */
export function patienceMs({ timeoutMs }: { timeoutMs: number }): number {
  return Math.min(longestMs, timeoutMs / 2);
}

export type Absence = Readonly<{
  /** Until when a host that is away is waited for. */
  untilMs: (hostId: string) => number;
  nowMs: number;
}>;

type Cell = Pick<CellView, 'hosts' | 'settings' | 'assignments'>;

/** One at least: a deployment of nothing has shown nothing. `own`: what is known of jobs of the type, of any release. */
export function expectedJobs(
  cell: Cell,
  workload: Workload | undefined,
  type: { newWanted: number; isInPlace: boolean; own: readonly SeenStatus[] },
  { untilMs, nowMs }: Absence,
): Pick<TypeState, 'newExpected' | 'followers' | 'leftOutAtMs'> {
  const { newWanted, isInPlace, own } = type;
  if (workload === undefined || newWanted === 0) return { newExpected: 0 };
  const isOmni = workload.kind === 'omni';
  const { maxHosts = Infinity, constraints } = workload;
  const away = isOmni ? lostHosts(cell, own, constraints) : isInPlace ? ownersAway(cell, workload) : [];
  const late = away.filter((hostId) => untilMs(hostId) <= nowMs);
  const awaited = away.filter((hostId) => untilMs(hostId) > nowMs);
  const leftOutAtMs = awaited.length === 0 ? undefined : Math.min(...awaited.map(untilMs));
  const open = isOmni ? matchingHosts(cell, constraints).filter((host) => takesJobs(cell, host)).length : 0;
  const onHosts = (count: number) => Math.min(maxHosts, count);
  const of = isOmni ? onHosts(open + away.length) : newWanted;
  const present = isOmni ? onHosts(open + awaited.length) : newWanted - late.length;
  const hosts = late.slice(0, of - present);
  const why = isOmni ? 'one on each host' : 'their data is there';
  return {
    newExpected: Math.max(1, present),
    leftOutAtMs,
    followers: hosts.length === 0 ? undefined : { hosts, of, why },
  };
}

/** For each slot of the workload whose data is on a host that is away, that host: it begins nowhere else. */
function ownersAway(cell: Cell, { id, count, demand }: Workload): string[] {
  if (demand.volumes.length === 0 || demand.canLeaveVolumes === true) return [];
  const jobs = placedJobs(cell, (workloadId) => workloadId === id).filter(({ index }) => index < count);
  return [...Map.groupBy(jobs, ({ index }) => index).values()].flatMap((ofSlot) => {
    const [hostId] = ofSlot.map((job) => job.hostId);
    const isAway = ofSlot.every((job) => !cell.hosts.snapshot.entries.has(job.hostId));
    return isAway && hostId !== undefined ? [hostId] : [];
  });
}

/**
 * Where one ran when its host went: schedulers give it up, and begin another when the host is back. Of its attributes only the tags
 * that people gave it are known then: one that may do by what it says of itself is waited for.
 */
function lostHosts(cell: Cell, own: readonly SeenStatus[], constraints: readonly Constraint[]): string[] {
  const { entries: hosts } = cell.hosts.snapshot;
  const { entries: settings } = cell.settings.snapshot;
  const wasRunning = ({ state, isUncertain }: SeenStatus) => state === 'lost' || isUncertain;
  const isMeant = (hostId: string) => {
    const { cordoned = false, drain, tags = {} } = settings.get(hostId)?.value ?? {};
    const known = constraints.filter(({ attribute }) => attribute === hostAttribute || attribute in tags);
    const canDo = failedConstraint(hostId, tags, known) === undefined;
    return !hosts.has(hostId) && !cordoned && drain === undefined && canDo;
  };
  return [...new Set(own.filter(wasRunning).map(({ hostId }) => hostId))].filter(isMeant).sort();
}
