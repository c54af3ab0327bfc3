/** Hosts with room in the order of how tight they fit: own slice first, the smallest large enough gap first. */
import { misfitOf } from './grid.ts';
import type { Grid, Levels } from './grid.ts';
import type { HostClass } from './host-classes.ts';
import type { Placement } from './request.ts';

export type Slices = 'all' | 'home' | 'away';

/** Candidates compared with each other before one is taken. */
const candidates = 8;
/** Hosts looked at in a cell of which only some fit, before cells of which all do have been tried. */
const doubtfulFirst = 16;

/** Hosts one after the other, in cells of those that fit about as tightly; -1 at the end. */
interface Walk {
  readonly isInCell: boolean;
  next(): number;
}

/** Every open host of the classes once that may fit: not those whose cell says that they do not. */
class GridWalk implements Walk {
  readonly #grids: readonly Grid[];
  readonly #levels: Levels;
  /** The next cell of each grid, -1 at its end. */
  readonly #next: number[];
  readonly #random: () => number;
  readonly #deferred: { cell: readonly number[]; at: number; left: number }[] = [];
  #cell: readonly number[] = [];
  #at = 0;
  #left = 0;

  constructor(grids: readonly Grid[], levels: Levels, random: () => number) {
    this.#grids = grids;
    this.#levels = levels;
    this.#random = random;
    this.#next = grids.map((grid) => grid.nextCell(levels, 0));
  }

  get isInCell(): boolean {
    return this.#left > 0;
  }

  next(): number {
    while (this.#left === 0) if (!this.#open()) return -1;
    this.#left -= 1;
    if (this.#at === this.#cell.length) this.#at = 0;
    return this.#cell[this.#at++] ?? -1;
  }

  #open(): boolean {
    let best = -1;
    let least = Infinity;
    for (let i = 0; i < this.#next.length; i++) {
      const cell = this.#next[i] ?? -1;
      const misfit = cell < 0 ? Infinity : misfitOf(cell, this.#levels);
      if (misfit < least) {
        least = misfit;
        best = i;
      }
    }
    const grid = this.#grids[best];
    if (grid === undefined) return this.#openDeferred();
    const cell = this.#next[best] ?? 0;
    this.#next[best] = grid.nextCell(this.#levels, least + 1);
    this.#enter(grid.cells[cell] ?? []);
    const isDoubtful = cell >> 5 === this.#levels.cpu || (cell & 31) === this.#levels.memory;
    if (isDoubtful && this.#left > doubtfulFirst) {
      const at = (this.#at + doubtfulFirst) % this.#cell.length;
      this.#deferred.push({ cell: this.#cell, at, left: this.#left - doubtfulFirst });
      this.#left = doubtfulFirst;
    }
    return true;
  }

  #openDeferred(): boolean {
    const rest = this.#deferred.shift();
    if (rest === undefined) return false;
    this.#cell = rest.cell;
    this.#at = rest.at;
    this.#left = rest.left;
    return true;
  }

  /** From a random host on, so that schedulers that plan at the same time begin at different ones. */
  #enter(cell: readonly number[]): void {
    this.#cell = cell;
    this.#left = cell.length;
    this.#at = cell.length < 2 ? 0 : Math.floor(this.#random() * cell.length);
  }
}

/** Hosts with room for one job at least, each once; `accepts` leaves out others. */
export class BestFit {
  readonly #placement: Placement;
  readonly #accepts: (index: number) => boolean;
  readonly #classes: readonly HostClass[];
  /** Slices still to be walked. */
  #home: boolean;
  #away: boolean;
  #walk: Walk | undefined;
  readonly #window: { index: number; gap: number }[] = [];

  constructor(
    placement: Placement,
    classes: readonly HostClass[],
    accepts: (index: number) => boolean,
    slices: Slices = 'all',
  ) {
    this.#placement = placement;
    this.#accepts = accepts;
    this.#classes = classes;
    const { listed } = placement.selection;
    this.#home = listed === undefined && slices !== 'away';
    this.#away = listed === undefined && slices !== 'home';
    if (listed !== undefined) this.#walk = listWalk(placement, listed);
  }

  /** The tightest of the next eight of a cell; -1: no more. */
  next(): number {
    const window = this.#window;
    while (window.length < candidates) {
      const index = this.#draw();
      if (index < 0) break;
      window.push({ index, gap: gapOf(this.#placement, index) });
    }
    let best = 0;
    for (let i = 1; i < window.length; i++) {
      if ((window[i]?.gap ?? 0) < (window[best]?.gap ?? 0)) best = i;
    }
    const chosen = window[best];
    const last = window.pop();
    if (chosen === undefined || last === undefined) return -1;
    if (best < window.length) window[best] = last;
    return chosen.index;
  }

  #draw(): number {
    for (;;) {
      // Another cell, another slice only when this one holds nothing any more: the window is not mixed.
      if (this.#window.length > 0 && this.#walk?.isInCell !== true) return -1;
      this.#walk ??= this.#nextWalk();
      if (this.#walk === undefined) return -1;
      const index = this.#walk.next();
      if (index < 0) this.#walk = undefined;
      else if (this.#accepts(index) && this.#placement.room(index, 1) > 0) return index;
    }
  }

  #nextWalk(): Walk | undefined {
    const { table, request } = this.#placement;
    while (this.#home || this.#away) {
      const grids: Grid[] = [];
      for (const { home, away } of this.#classes) {
        const grid = this.#home ? home : away;
        if (grid.size > 0) grids.push(grid);
      }
      if (this.#home) this.#home = false;
      else this.#away = false;
      if (grids.length > 0) return new GridWalk(grids, table.levelsOf(request.demand), request.random);
    }
    return undefined;
  }
}

function listWalk(placement: Placement, hosts: readonly number[]): Walk {
  const left = hosts.filter((index) => placement.roomAnywhere(index, 1) > 0);
  return {
    get isInCell() {
      return left.length > 0;
    },
    next: () => left.pop() ?? -1,
  };
}

/** What would be left of the host, as parts of what it has: the less the tighter. */
function gapOf({ table }: Placement, index: number): number {
  const { memoryFree, memoryCapacity, cpuFree, cpuCapacity } = table.columns;
  return (
    (memoryFree[index] ?? 0) / Math.max(memoryCapacity[index] ?? 0, 1) +
    (cpuFree[index] ?? 0) / Math.max(cpuCapacity[index] ?? 0, 1)
  );
}
