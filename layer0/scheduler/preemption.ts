/** Which jobs of lower workloads have to make room for one that must run? */
import type { HostRecord, Workload } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import type { Cell, PlacedJob } from './cell-view.ts';
import { makeEvaluation } from './evaluations.ts';
import { attributesOf, failedConstraint, isOpen } from './feasible.ts';
import type { HostTable } from './placement/host-table.ts';
import { Placement } from './placement/request.ts';
import type { PlaceRequest } from './placement/request.ts';
import type { PlanContext, PlanDraft } from './plan.ts';
import type { Slot } from './reconcile.ts';
import type { Resources } from './resources.ts';

/** From here up a workload may pre-empt, if it says so, and only what is this much lower. */
const lowestPreemptor = 80;
const margin = 10;

/** For how long room that was made stays with whom it was made for. */
export const reservationMs = 5_000;

export type Victims = Readonly<{ stop: readonly PlacedJob[]; evaluations: readonly Evaluation[] }>;

type Victim = Readonly<{ job: PlacedJob; priority: number }>;
type HostVictims = Readonly<{ hostId: string; victims: readonly Victim[]; highest: number }>;

export function mayPreempt({ mayPreempt, priority }: Pick<Workload, 'mayPreempt' | 'priority'>): boolean {
  return mayPreempt && priority >= lowestPreemptor;
}

/**
 * For slots that have no room: those to be told to stop, on the hosts where that costs least: lowest priority
 * first, then fewest jobs, then youngest. Room that is becoming free already is counted first. Nothing is placed until
 * they ended; then the waiting evaluation takes their room in the transaction that releases them (`endedVictims`).
 * Jobs with volumes are left alone: they could go nowhere else, and their room stays theirs. A slot that goes after one
 * counts its room, and asks nothing else of its host.
 */
export function findVictims(
  workload: Workload,
  slots: readonly Slot[],
  request: PlaceRequest,
  cell: Cell,
  context: PlanContext,
  draft: PlanDraft,
): Victims {
  if (slots.length === 0 || !mayPreempt(workload)) return { stop: [], evaluations: [] };
  const { table } = context;
  const bound = new Map(slots.flatMap((slot) => (slot.hostId === undefined ? [] : [[slot.hostId, slot]])));
  const wanted = slots.filter(({ hostId }) => hostId === undefined).length;
  const checks = new Placement(table, request);
  const options: HostVictims[] = [];
  let coming = 0;
  for (const hostId of wanted > 0 ? [...cell.hosts.keys()].sort() : bound.keys()) {
    const index = table.indexOf(hostId);
    if (index === undefined) continue;
    const after = bound.get(hostId)?.after;
    if (!isFullOnly(after === undefined ? checks.obstacle(index) : checks.shortage(index))) continue;
    // What it lets go is free in the table.
    const gone = new Set(draft.hosts.get(hostId)?.release.map(({ id }) => id));
    const jobs = cell.jobsOn(hostId).filter(({ id }) => !gone.has(id));
    const found = victimsOn(hostId, jobs, freeFor(after, index, table), workload, cell);
    if (found === 'coming') coming += bound.has(hostId) ? 0 : 1;
    else if (found !== undefined) options.push(found);
  }
  options.sort(
    (a, b) =>
      a.highest - b.highest ||
      a.victims.length - b.victims.length ||
      newestOf(b) - newestOf(a) ||
      (a.hostId < b.hostId ? -1 : 1),
  );
  const forBound = options.filter(({ hostId }) => bound.has(hostId));
  const forOthers = options.filter(({ hostId }) => !bound.has(hostId)).slice(0, Math.max(0, wanted - coming));
  const chosen = [...forBound, ...forOthers].flatMap(({ victims }) => victims);
  const priorities = new Map(chosen.map(({ job, priority }) => [job.workloadId, priority]));
  return {
    stop: chosen.map(({ job }) => job),
    evaluations: [...priorities].map(([id, priority]) => makeEvaluation(id, 'preemption', context, { priority })),
  };
}

/** Ended jobs of lower workloads that were told to stop, by host. */
export function endedVictims(workload: Workload, cell: Cell): { hostId: string; jobs: PlacedJob[] }[] {
  if (!mayPreempt(workload)) return [];
  return [...cell.hosts.keys()].sort().flatMap((hostId) => {
    const jobs = cell
      .jobsOn(hostId)
      .filter((job) => job.workloadId !== workload.id && isGoing(job) && job.status?.isFinal === true)
      .filter((job) => isLower(job, workload, cell));
    return jobs.length === 0 ? [] : [{ hostId, jobs }];
  });
}

/**
 * Which of a workload's ended jobs are not its own to release: they were told to stop, a higher workload that may pre-empt
 * waits, and their room with what else is stopping there is enough for it. Released, the room would be anybody's: the one
 * that was stopped could take it again before the one that needs it.
 */
export function reservedJobs(workload: Workload, release: readonly PlacedJob[], cell: Cell, now: number): PlacedJob[] {
  const stopped = release.filter(
    (job) =>
      isGoing(job) &&
      job.status?.isFinal === true &&
      cell.hosts.has(job.hostId) &&
      now < (job.status.endedAt ?? 0) + reservationMs,
  );
  if (stopped.length === 0) return [];
  const waiting = [...cell.evaluations.values()].flatMap(({ value: { state, priority, workloadId } }) => {
    if (state !== 'blocked' || priority < workload.priority + margin) return [];
    const other = cell.workload(workloadId)?.value;
    return other !== undefined && mayPreempt(other) ? other : [];
  });
  return stopped.filter(({ hostId }) => waiting.some((other) => isEnoughComing(hostId, other, cell)));
}

function isEnoughComing(hostId: string, { id, demand, constraints }: Workload, cell: Cell): boolean {
  const host = cell.hosts.get(hostId)?.value;
  const settings = cell.settings.get(hostId);
  if (host === undefined || !isOpen(host, settings)) return false;
  if (failedConstraint(hostId, attributesOf(host, settings), constraints) !== undefined) return false;
  // One of its own that has volumes stays until its slot has the next one.
  const isItsOwn = ({ workloadId, status }: PlacedJob) => workloadId === id && status?.isFinal === true;
  const room = roomWithout(
    host,
    cell.jobsOn(hostId),
    (job) => isGoing(job) || isGoingForGood(job, cell) || isItsOwn(job),
  );
  return room.memoryBytes >= demand.memoryBytes && room.cpuMillis >= demand.cpuMillis;
}

/** What of a host somebody may take once all jobs there that ended or were told to stop are let go. */
export function roomComing(host: HostRecord, jobs: readonly PlacedJob[]): Resources {
  return roomWithout(host, jobs, ({ desired, status }) => desired === 'stop' || status?.isFinal === true);
}

function roomWithout(
  { capacity }: HostRecord,
  jobs: readonly PlacedJob[],
  isGone: (job: PlacedJob) => boolean,
): Resources {
  let { memoryBytes, cpuMillis } = capacity;
  for (const job of jobs) {
    if (isGone(job)) continue;
    memoryBytes -= job.demand.memoryBytes;
    cpuMillis -= job.demand.cpuMillis;
  }
  return { memoryBytes, cpuMillis };
}

/** With the room of the job that the slot goes after. */
function freeFor(after: PlacedJob | undefined, index: number, { columns }: HostTable): Resources {
  return {
    memoryBytes: (columns.memoryFree[index] ?? 0) + (after?.demand.memoryBytes ?? 0),
    cpuMillis: (columns.cpuFree[index] ?? 0) + (after?.demand.cpuMillis ?? 0),
  };
}

/** The fewest of the lowest whose going makes room for one job; `coming` when enough are going already. */
function victimsOn(
  hostId: string,
  jobs: readonly PlacedJob[],
  free: Resources,
  workload: Workload,
  cell: Cell,
): HostVictims | 'coming' | undefined {
  const { demand } = workload;
  let memory = free.memoryBytes - demand.memoryBytes;
  let cpu = free.cpuMillis - demand.cpuMillis;
  const hasRoom = () => memory >= 0 && cpu >= 0;
  const candidates: Victim[] = [];
  for (const job of jobs) {
    if (isGoing(job) || isGoingForGood(job, cell)) {
      memory += job.demand.memoryBytes;
      cpu += job.demand.cpuMillis;
    } else if (mayHaveToGo(job) && isLower(job, workload, cell)) {
      candidates.push({ job, priority: cell.workload(job.workloadId)?.value.priority ?? 0 });
    }
  }
  if (hasRoom()) return 'coming';
  candidates.sort(
    (a, b) => a.priority - b.priority || b.job.createdAt - a.job.createdAt || (a.job.id < b.job.id ? -1 : 1),
  );
  const victims: Victim[] = [];
  for (const one of candidates) {
    if (hasRoom()) break;
    const { memoryBytes, cpuMillis } = one.job.demand;
    // What does not help stays.
    if (!((memory < 0 && memoryBytes > 0) || (cpu < 0 && cpuMillis > 0))) continue;
    victims.push(one);
    memory += memoryBytes;
    cpu += cpuMillis;
  }
  if (!hasRoom()) return undefined;
  const needed = withoutSpare(victims, { memory, cpu });
  return { hostId, victims: needed, highest: Math.max(...needed.map(({ priority }) => priority)) };
}

/** A large victim may have made earlier ones needless: the highest of those are let live first. */
function withoutSpare(victims: readonly Victim[], left: { memory: number; cpu: number }): readonly Victim[] {
  let { memory, cpu } = left;
  const needed: Victim[] = [];
  for (const one of victims.toReversed()) {
    const { memoryBytes, cpuMillis } = one.job.demand;
    if (memory - memoryBytes >= 0 && cpu - cpuMillis >= 0) {
      memory -= memoryBytes;
      cpu -= cpuMillis;
    } else needed.push(one);
  }
  return needed.toReversed();
}

/** Its room is on its way to others. One with volumes stays until the next one of its slot is there: it says where the data is. */
function isGoing({ desired, demand }: PlacedJob): boolean {
  return desired === 'stop' && demand.volumes.length === 0;
}

/** Nor does any other take its room: its workload was removed, or has that slot no more. */
function isGoingForGood({ desired, workloadId, index }: PlacedJob, cell: Cell): boolean {
  if (desired !== 'stop') return false;
  const workload = cell.workload(workloadId)?.value;
  if (workload === undefined) return cell.unreadable(workloadId) === undefined;
  return workload.kind === 'service' && index >= workload.count;
}

function mayHaveToGo({ desired, demand, status }: PlacedJob): boolean {
  return desired === 'run' && demand.volumes.length === 0 && status?.isFinal !== true;
}

function isLower({ workloadId }: PlacedJob, workload: Workload, cell: Cell): boolean {
  // Nobody plans for it: what is stopped of it would begin nowhere.
  if (cell.unreadable(workloadId) !== undefined) return false;
  const other = cell.workload(workloadId)?.value;
  return other === undefined || other.priority <= workload.priority - margin;
}

/** Only what is full can be made room for. */
function isFullOnly(obstacle: string | undefined): boolean {
  return obstacle === 'memory' || obstacle === 'cpu';
}

function newestOf({ victims }: HostVictims): number {
  return Math.max(...victims.map(({ job }) => job.createdAt));
}
