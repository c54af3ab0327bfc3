/** What has to be done so that a workload's jobs become those it asks for? The words of the answer, and what all kinds share. */
import type { JobFacts, PlacedJob } from './cell-view.ts';
import type { Departure } from './drain.ts';

/** A job to be placed. */
export type Slot = Readonly<{
  index: number;
  why: 'missing' | 'lost' | 'failed' | 'destructive' | 'migrate';
  /** It may go nowhere else. */
  hostId?: string;
  /** Its volumes are there, and nothing else keeps it from going elsewhere. */
  homeId?: string;
  /** The job it is to take the place of was made then, by whatever clock: of two in a slot the newer one stays. */
  newerThan?: number;
  /** The ended job it takes the place of: its volumes are there, and its room is kept until this one has it. */
  after?: PlacedJob;
}>;

export type Decision = Readonly<{
  place: readonly Slot[];
  /** Jobs to be told to stop. */
  stop: readonly PlacedJob[];
  /** Jobs that run until others take their place: what is placed does not mind them. */
  leaving?: readonly PlacedJob[];
  /** Ended jobs to be taken out of claims and assignments. */
  release: readonly PlacedJob[];
  /** Slots that nothing can be done about now, by the reason. */
  held?: ReadonlyMap<string, number>;
  /** When to look again if nothing happens before: jobs that keep failing wait, a drain has a deadline. */
  retryAt?: number;
  /** Jobs that ended are not replaced any more, and why. */
  gaveUp?: string;
  /** Runs ended: what the workload's count becomes. */
  remaining?: number;
  /** There is more to do right after this, by an evaluation of the same cause. */
  goesOn?: true;
}>;

export type ReconcileInput = Readonly<{
  placed: readonly PlacedJob[];
  /** Final statuses of the workload's jobs, also of those released already. */
  ended: readonly JobFacts[];
  lostHosts: ReadonlySet<string>;
  /** Hosts the workload's jobs have to leave. */
  departures: ReadonlyMap<string, Departure>;
  isThere: (hostId: string) => boolean;
  /** Where the slot had its job last, of a workload with volumes. */
  homeOf: (index: number) => string | undefined;
  /** Whether another job in the place of this one fits on any host it may go to: that looks at every host. */
  hasRoomFor: (job: PlacedJob) => boolean;
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
    else if (one.desired === 'stop') stopping.push(one);
    else active.push(one);
  }
  return { active, stopping, ended };
}

export function isRunning(one: PlacedJob): boolean {
  return one.status?.state === 'running';
}

/** Those that do not run first, then the highest index, then the newest. */
export function leastUseful(jobs: readonly PlacedJob[]): PlacedJob[] {
  if (jobs.length < 2) return [...jobs];
  return jobs.toSorted(
    (a, b) =>
      Number(isRunning(a)) - Number(isRunning(b)) ||
      b.index - a.index ||
      b.createdAt - a.createdAt ||
      (a.id < b.id ? 1 : -1),
  );
}

export function lowestFree(taken: ReadonlySet<number>, howMany: number): number[] {
  const indexes: number[] = [];
  for (let index = 0; indexes.length < howMany; index += 1) {
    if (!taken.has(index)) indexes.push(index);
  }
  return indexes;
}

/** The earlier of two times that may not come. */
export function earliest(a: number | undefined, b: number | undefined): number | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return Math.min(a, b);
}

/** A workload that is gone: everything stops, and is let go as it ends. */
export function reconcileRemoved(input: ReconcileInput): Decision {
  const { active, ended } = sortJobs(input.placed, input.lostHosts);
  return { place: [], stop: active, release: ended };
}
