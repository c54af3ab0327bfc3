/** How does a workload stand on its hosts, by the spread it asks for and how full they are, and where would a job stand better? */
import type { Workload } from './cell.ts';
import type { PlacedJob } from './cell-view.ts';
import { Placement } from './placement/request.ts';
import type { PlanContext } from './plan.ts';

/** A host has to be emptier by this part of it, after the move, for a move that does not better the spread. */
const fillMargin = 0.1;

type Standing = Readonly<{ index: number; counts: readonly number[]; fill: number }>;

/**
 * INVARIANT. What it counts is the workload with all moves made so far: a move costs as much as there are hosts, however many jobs
 * they have.
 */
export class Standings {
  readonly #workload: Workload;
  readonly #context: PlanContext;
  /** Jobs that may move, by host. */
  readonly #movable = new Map<number, PlacedJob[]>();
  readonly #same = new Map<number, number>();
  /** Jobs by each spread attribute's value within those before it. */
  readonly #alike = new Map<string, number>();
  readonly #paths = new Map<number, readonly string[]>();
  readonly #planned = new Map<number, number>();
  /** Hosts whose jobs stand nowhere better: after moves that only ever improve they do not either. */
  readonly #settled = new Set<number>();

  constructor(workload: Workload, jobs: readonly PlacedJob[], movable: readonly PlacedJob[], context: PlanContext) {
    this.#workload = workload;
    this.#context = context;
    const { table } = context;
    for (const { hostId } of jobs) this.#count(table.indexOf(hostId), 1);
    for (const job of movable) {
      const index = table.indexOf(job.hostId);
      if (index === undefined) continue;
      const others = this.#movable.get(index);
      if (others === undefined) this.#movable.set(index, [job]);
      else others.push(job);
    }
  }

  /** Moves the job that stands worst to where it stands best; undefined when none would stand better elsewhere. */
  move(): { job: PlacedJob; hostId: string } | undefined {
    const sources = [...this.#movable].flatMap(([index, [job]]) =>
      job === undefined || this.#settled.has(index) ? [] : [{ job, standing: this.#standingOn(index, index) }],
    );
    sources.sort((a, b) => compare(b.standing, a.standing) || (a.job.id < b.job.id ? -1 : 1));
    const targets = this.#targets();
    for (const { job, standing } of sources) {
      let best: Standing | undefined;
      for (const index of targets) {
        const there = this.#standingOn(index, standing.index);
        if (isBetter(there, standing) && (best === undefined || compare(there, best) < 0)) best = there;
      }
      const hostId = best && this.#context.table.idOf(best.index);
      if (best !== undefined && hostId !== undefined) {
        this.#movable.get(standing.index)?.shift();
        this.#count(standing.index, -1);
        this.#count(best.index, 1);
        this.#planned.set(best.index, (this.#planned.get(best.index) ?? 0) + 1);
        return { job, hostId };
      }
      this.#settled.add(standing.index);
    }
    return undefined;
  }

  /** Hosts that take one more job. */
  #targets(): number[] {
    const { table, random } = this.#context;
    const checks = new Placement(table, { ...this.#workload, policy: 'spread', same: this.#same, random });
    const targets: number[] = [];
    for (let index = 0; index < table.end; index += 1) {
      if (table.idOf(index) === undefined || checks.obstacle(index) !== undefined) continue;
      const planned = this.#planned.get(index) ?? 0;
      if (table.roomFor(index, this.#workload.demand, planned + 1) > planned) targets.push(index);
    }
    return targets;
  }

  /** Other jobs of the workload by each spread attribute's value, then by host, without the one that `from` would lose. */
  #standingOn(index: number, from: number): Standing {
    const own = this.#pathsOf(from);
    const counts = this.#pathsOf(index).map(
      (path, depth) => (this.#alike.get(path) ?? 0) - (path === own[depth] ? 1 : 0),
    );
    counts.push((this.#same.get(index) ?? 0) - (index === from ? 1 : 0));
    const extra = (this.#planned.get(index) ?? 0) + (index === from ? 0 : 1);
    return { index, counts, fill: this.#fillWith(index, extra) };
  }

  /** How full the host is with so many more, by whichever resource is scarcer. */
  #fillWith(index: number, extra: number): number {
    const { memoryCapacity, memoryFree, cpuCapacity, cpuFree } = this.#context.table.columns;
    const { memoryBytes, cpuMillis } = this.#workload.demand;
    const memory = partOf((memoryFree[index] ?? 0) - extra * memoryBytes, memoryCapacity[index] ?? 0);
    const cpu = partOf((cpuFree[index] ?? 0) - extra * cpuMillis, cpuCapacity[index] ?? 0);
    return 1 - Math.min(memory, cpu);
  }

  #count(index: number | undefined, by: number): void {
    if (index === undefined) return;
    this.#same.set(index, (this.#same.get(index) ?? 0) + by);
    for (const path of this.#pathsOf(index)) this.#alike.set(path, (this.#alike.get(path) ?? 0) + by);
  }

  /** The host's values of the first spread attribute, of the first two, and so on. */
  #pathsOf(index: number): readonly string[] {
    let paths = this.#paths.get(index);
    if (paths === undefined) {
      const values = this.#workload.spread.map((name) => this.#context.table.valueOf(index, name) ?? null);
      paths = values.map((_, depth) => JSON.stringify(values.slice(0, depth + 1)));
      this.#paths.set(index, paths);
    }
    return paths;
  }
}

/** Where there is nothing at all nothing gets scarce. */
function partOf(free: number, capacity: number): number {
  return capacity > 0 ? free / capacity : 1;
}

function isBetter(there: Standing, here: Standing): boolean {
  const bySpread = compareCounts(there.counts, here.counts);
  return bySpread < 0 || (bySpread === 0 && there.fill + fillMargin < here.fill);
}

function compare(a: Standing, b: Standing): number {
  return compareCounts(a.counts, b.counts) || a.fill - b.fill;
}

function compareCounts(a: readonly number[], b: readonly number[]): number {
  for (const [at, one] of a.entries()) {
    const difference = one - (b[at] ?? 0);
    if (difference !== 0) return difference;
  }
  return 0;
}
