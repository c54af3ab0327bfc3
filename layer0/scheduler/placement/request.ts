/** What is asked of placing, and which hosts it leaves. */
import type { Constraint, Demand } from '../cell.ts';
import { constraintText, passes } from './host-classes.ts';
import type { HostTable } from './host-table.ts';
import type { Selection } from './selection.ts';

/**
 * - `pack`: the host that has least to spare, of cpu or of memory, whichever it has more of; filled up before the next.
 * - `spread`: where the workload has fewest jobs: by the first attribute's values, within one by the next attribute's,
 *   then by host; among equals as `pack`.
 * - `two_choices`: the emptier of two random hosts. Schedulers that plan at the same time rarely meet.
 */
export type Policy = 'pack' | 'spread' | 'two_choices';

export type PlaceRequest = Readonly<{
  policy: Policy;
  demand: Demand;
  constraints?: readonly Constraint[];
  /** Attributes, for `spread`. */
  spread?: readonly string[];
  /** Jobs the workload has already, by host: what `spread` and `distinct` count. */
  same?: ReadonlyMap<number, number>;
  exclude?: ReadonlySet<number>;
  /** Recent failures of the workload by host: taken only when no other host has room, fewest failures first. */
  penalties?: ReadonlyMap<number, number>;
  /** In [0, 1). The same table, request and numbers give the same hosts. */
  random: () => number;
}>;

/** What an empty host has not either. */
const beyond = { memory: 'asks for more memory than the host has', cpu: 'asks for more cpu than the host has' };

/** Whether only another host helps, or more of this one. */
export function isBeyondHost(obstacle: string): boolean {
  return obstacle === beyond.memory || obstacle === beyond.cpu;
}

/** Jobs for one host. */
export type HostShare = Readonly<{ index: number; count: number }>;

/** Checks of hosts for one request, and what it has placed so far. Nothing is claimed in the table. */
export class Placement {
  readonly table: HostTable;
  readonly request: PlaceRequest;
  readonly selection: Selection;
  readonly placed = new Map<number, number>();
  readonly #distinct: readonly Readonly<{ attribute: string; used: Set<string> }>[];

  constructor(table: HostTable, request: PlaceRequest) {
    this.table = table;
    this.request = request;
    this.selection = table.select(request.constraints, request.spread);
    this.#distinct = distinctOf(table, request);
  }

  /** Whether each host gets one job at most. */
  get isDistinct(): boolean {
    return this.#distinct.length > 0;
  }

  /** For how many more jobs an open host that is of one of the selection's classes has room. */
  room(index: number, limit: number): number {
    const { demand, exclude } = this.request;
    if (exclude?.has(index) === true) return 0;
    const { perHost } = this.selection;
    if (perHost.length > 0 && !perHost.every((c) => passes(c, this.table.valueOf(index, c.attribute)))) return 0;
    if (this.#distinct.length > 0) return this.#isUnused(index) && this.table.fits(index, demand) ? 1 : 0;
    const here = this.placed.size === 0 ? 0 : (this.placed.get(index) ?? 0);
    return this.table.roomFor(index, demand, limit + here) - here;
  }

  /** The same for any host. */
  roomAnywhere(index: number, limit: number): number {
    if (!this.table.isOpen(index)) return 0;
    const isSelected =
      this.request.constraints?.every((c) => passes(c, this.table.valueOf(index, c.attribute))) ?? true;
    return isSelected ? this.room(index, limit) : 0;
  }

  take(index: number, count: number): void {
    this.placed.set(index, (this.placed.get(index) ?? 0) + count);
    for (const { attribute, used } of this.#distinct) used.add(this.table.valueOf(index, attribute) ?? '');
  }

  /** In words for people: the first check that the host fails. */
  obstacle(index: number): string | undefined {
    return this.obstacles(index)[0];
  }

  /** The same, and of its room all that is short: whoever makes room by what the first says is not to be told another then. */
  obstacles(index: number): readonly string[] {
    const { constraints = [], exclude } = this.request;
    const failed = constraints.find((c) => !passes(c, this.table.valueOf(index, c.attribute)));
    if (failed !== undefined) return [constraintText(failed)];
    if (!this.table.isOpen(index)) return ['cordoned'];
    const clash = constraints.find((c) => c.operator === 'distinct' && !this.#isUnused(index, c.attribute));
    if (clash !== undefined) return [constraintText(clash)];
    if (exclude?.has(index) === true) return ['excluded'];
    return this.#shortages(index);
  }

  /** What is short of its room, the first: whether the job may be there at all is not looked at. */
  shortage(index: number): string | undefined {
    return this.#shortages(index)[0];
  }

  /** What nobody can make room for comes first. */
  #shortages(index: number): readonly string[] {
    const { demand } = this.request;
    const { memoryCapacity, memoryFree, cpuCapacity, cpuFree } = this.table.columns;
    const tooMuch: string[] = [];
    if (demand.memoryBytes > (memoryCapacity[index] ?? 0)) tooMuch.push(beyond.memory);
    if (demand.cpuMillis > (cpuCapacity[index] ?? 0)) tooMuch.push(beyond.cpu);
    if (tooMuch.length > 0) return tooMuch;
    const port = this.table.takenPort(index, demand);
    if (port !== undefined) return [`port ${port} is taken`];
    const short: string[] = [];
    if (demand.memoryBytes > (memoryFree[index] ?? 0)) short.push('memory');
    if (demand.cpuMillis > (cpuFree[index] ?? 0)) short.push('cpu');
    return short;
  }

  /** A host without the attribute never passes. */
  #isUnused(index: number, only?: string): boolean {
    return this.#distinct.every(({ attribute, used }) => {
      if (only !== undefined && only !== attribute) return true;
      const value = this.table.valueOf(index, attribute);
      return value !== undefined && !used.has(value);
    });
  }
}

function distinctOf(table: HostTable, { constraints, same }: PlaceRequest): { attribute: string; used: Set<string> }[] {
  if (constraints === undefined || constraints.length === 0) return [];
  return constraints.flatMap(({ operator, attribute }) => {
    if (operator !== 'distinct') return [];
    const taken = [...(same ?? [])].filter(([, count]) => count > 0);
    return [{ attribute, used: new Set(taken.flatMap(([index]) => table.valueOf(index, attribute) ?? [])) }];
  });
}
