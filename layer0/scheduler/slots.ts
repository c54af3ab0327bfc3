/** Which slots of a service need a job, and which jobs are too many? */
import type { Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import { nextDeadline } from './drain.ts';
import { reconcileExclusive } from './exclusive-slots.ts';
import { isRunning, leastUseful, lowestFree, sortJobs } from './reconcile.ts';
import type { Decision, ReconcileInput, Slot } from './reconcile.ts';
import { isFailing, judgeReschedule, withVerdict } from './reschedule.ts';

export function reconcileService(workload: Workload, input: ReconcileInput): Decision {
  return isExclusive(workload) ? reconcileExclusive(workload, input) : startFirst(workload, input);
}

/** Whether a slot may have one job only: two would share a volume, or be two of what there may be one of. */
export function isExclusive(workload: Workload): boolean {
  return workload.update === 'stop_first' || workload.singleton || workload.demand.volumes.length > 0;
}

/** How many jobs of a new version may be on their way at once: small services change in one step. */
export function parallelOf({ maxParallel, count }: Workload): number {
  return maxParallel ?? Math.max(4, Math.ceil(count / 4));
}

/**
 * New jobs first; an old one is told to stop only when a new one runs in its place, so the running ones never fall below
 * the count. What is missing outright is placed at once. What takes the place of a job of another version, or of one that
 * has to leave its host, is placed a few at a time.
 */
function startFirst(workload: Workload, input: ReconcileInput): Decision {
  const { departures, lostHosts } = input;
  const { count, version } = workload;
  if (input.placed.length === 0) return { place: firstSlots(count), stop: [], release: [] };
  const { active, ended } = sortJobs(input.placed, lostHosts);
  const isDue = (one: PlacedJob) => departures.get(one.hostId)?.isDue === true;
  const isGood = (one: PlacedJob) => one.version === version && !departures.has(one.hostId);
  const staying = newestPerSlot(active.filter(isGood));
  const stays = new Set(staying);
  const due = active.filter(isDue);
  const outdated = active.filter((one) => !isDue(one) && !stays.has(one));
  const running = staying.filter(isRunning);

  const failing = ended.filter((one) => isFailing(one, workload, lostHosts));
  const verdict = failing.length === 0 ? undefined : judgeReschedule(workload, input);
  // They stay assigned meanwhile: it is how the next evaluation knows what it waits for.
  const room = Math.max(0, count - staying.length);
  const held = verdict === undefined || verdict.kind === 'now' ? [] : failing.slice(0, room);

  const missing = room - held.length;
  const deficit = Math.min(missing, Math.max(0, count - staying.length - outdated.length - held.length));
  const underway = deficit + held.length + staying.length - running.length;
  const old = outdated.filter((one) => one.version !== version);
  const destructive = Math.min(missing - deficit, old.length, Math.max(0, parallelOf(workload) - underway));
  const moving = outdated.length - old.length;
  const migrate = Math.min(
    missing - deficit - destructive,
    moving,
    Math.max(0, moveParallel(outdated, input) - deficit - destructive - staying.filter(isStarting).length),
  );

  const taken = new Set([...staying, ...held].map(({ index }) => index));
  const indexes = lowestFree(taken, deficit + destructive + migrate);
  const lost = new Set(ended.filter((one) => lostHosts.has(one.hostId)).map(({ index }) => index));
  const failed = new Set(failing.map(({ index }) => index));
  const place = indexes.map((index, at): Slot => {
    if (at >= deficit + destructive) return { index, why: 'migrate' };
    if (at >= deficit) return { index, why: 'destructive' };
    return { index, why: lost.has(index) ? 'lost' : failed.has(index) ? 'failed' : 'missing' };
  });

  const decision: Decision = {
    place,
    stop: [
      ...leastUseful(staying).slice(0, Math.max(0, staying.length - count)),
      ...due,
      ...leastNeeded(outdated, running).slice(0, Math.max(0, outdated.length - Math.max(0, count - running.length))),
    ],
    release: held.length === 0 ? ended : ended.filter((one) => !held.includes(one)),
    ...(outdated.length === 0 ? {} : { leaving: outdated }),
  };
  return withVerdict(
    decision,
    held.length > 0 ? verdict : undefined,
    outdated.length > 0 ? nextDeadline(departures) : undefined,
  );
}

function firstSlots(count: number): Slot[] {
  return Array.from({ length: count }, (_, index): Slot => ({ index, why: 'missing' }));
}

/** A slot with two jobs is moving: the newer takes the place of the older. */
function newestPerSlot(jobs: readonly PlacedJob[]): readonly PlacedJob[] {
  const newest = new Map<number, PlacedJob>();
  for (const job of jobs) {
    const other = newest.get(job.index);
    if (other === undefined || job.createdAt > other.createdAt) newest.set(job.index, job);
  }
  return newest.size === jobs.length ? jobs : [...newest.values()];
}

/** A crashed one is its host's to start again; it does not hold up what moves. */
export function isStarting(one: PlacedJob): boolean {
  return one.status === undefined || one.status.state === 'pending' || one.status.state === 'starting';
}

function moveParallel(leaving: readonly PlacedJob[], { departures }: ReconcileInput): number {
  return leaving.reduce((most, { hostId }) => Math.max(most, departures.get(hostId)?.maxParallel ?? 0), 0);
}

/** Of the jobs to be replaced: those that serve nobody, then those whose slot has a running new one. */
function leastNeeded(outdated: readonly PlacedJob[], running: readonly PlacedJob[]): PlacedJob[] {
  const replaced = new Set(running.map(({ index }) => index));
  return leastUseful(outdated).sort(
    (a, b) =>
      Number(isRunning(a)) - Number(isRunning(b)) || Number(replaced.has(b.index)) - Number(replaced.has(a.index)),
  );
}
