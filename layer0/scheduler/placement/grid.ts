/**
 * Hosts of one class in 32 × 32 cells by what is free of cpu and memory, half an octave apart, so that the smallest gap
 * that is large enough is found without looking at hosts. Bitmaps per level say which cells hold any.
 */
export const gridLevels = 32;

/** Which half octave below `scale` (a power of two, at least the largest amount) an amount is in: 31 is the topmost. */
export function levelOf(amount: number, scale: number): number {
  const steps = Math.floor(Math.min(1, amount / scale) * 0x4000_0000);
  if (steps < 1 << 15) return 0;
  const octave = 31 - Math.clz32(steps);
  return Math.min(gridLevels - 1, 2 * octave + ((steps >>> (octave - 1)) & 1) - 29);
}

/** The power of two from an amount up: as a scale it holds until something larger comes. */
export function scaleFor(amount: number): number {
  return 2 ** Math.ceil(Math.log2(Math.max(amount, 1)));
}

/** What there is of a cell: its cpu level, its memory level. */
export type Levels = Readonly<{ cpu: number; memory: number }>;

/**
 * How badly a cell fits, from (cpu, memory) on, another number for each cell: by how many levels there is more than is asked for of
 * the one resource of which there is most more, then of the other. So jobs go where both come to an end together: on a host
 * with much memory and little cpu, jobs that need cpu would leave memory that nobody can use.
 */
export function misfitOf(cell: number, { cpu, memory }: Levels): number {
  const moreCpu = (cell >>> 5) - cpu;
  const moreMemory = (cell & 31) - memory;
  const [most, least] = moreCpu > moreMemory ? [moreCpu, moreMemory] : [moreMemory, moreCpu];
  return (most << 6) | (least << 1) | (moreCpu > moreMemory ? 1 : 0);
}

export class Grid {
  /** Hosts by cell; a cell is its cpu level × 32 + its memory level. */
  readonly cells: (number[] | undefined)[] = Array.from({ length: gridLevels * gridLevels });
  /** For each cpu level a bit per memory level whose cell there holds a host, and the other way round. */
  readonly #ofCpu = new Int32Array(gridLevels);
  readonly #ofMemory = new Int32Array(gridLevels);
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** The host's position in its cell. */
  add(cell: number, host: number): number {
    this.#size += 1;
    const hosts = (this.cells[cell] ??= []);
    if (hosts.length === 0) this.#mark(cell, true);
    return hosts.push(host) - 1;
  }

  /** The host that now has the position of the one taken out; -1 when that was the last. */
  remove(cell: number, position: number): number {
    this.#size -= 1;
    const hosts = this.cells[cell] ?? [];
    const last = hosts.pop() ?? -1;
    if (hosts.length === 0) this.#mark(cell, false);
    if (position >= hosts.length) return -1;
    hosts[position] = last;
    return last;
  }

  /** The cell with the least misfit, of those with as much as is given at least; -1: none. */
  nextCell({ cpu, memory }: Levels, misfit: number): number {
    const first = misfit >>> 6;
    for (let most = first; most < gridLevels - Math.min(cpu, memory); most++) {
      const least = most === first ? (misfit >>> 1) & 31 : 0;
      const past = most === first ? misfit & 1 : 0;
      const byMemory = firstBit(this.#ofMemory[memory + most] ?? 0, cpu + least + past, cpu + most) - cpu;
      const byCpu = firstBit(this.#ofCpu[cpu + most] ?? 0, memory + least, memory + most - 1) - memory;
      if (byMemory >= gridLevels && byCpu >= gridLevels) continue;
      return byMemory <= byCpu
        ? (cpu + byMemory) * gridLevels + memory + most
        : (cpu + most) * gridLevels + memory + byCpu;
    }
    return -1;
  }

  #mark(cell: number, isHeld: boolean): void {
    const [cpu, memory] = [cell >>> 5, cell & 31];
    this.#ofCpu[cpu] = withBit(this.#ofCpu[cpu] ?? 0, memory, isHeld);
    this.#ofMemory[memory] = withBit(this.#ofMemory[memory] ?? 0, cpu, isHeld);
  }
}

function withBit(bits: number, at: number, isSet: boolean): number {
  return isSet ? bits | (1 << at) : bits & ~(1 << at);
}

/** Above all levels by as many as there are: less any of them it is none still. */
const noBit = 2 * gridLevels;

/** The lowest bit that is set from one to another. */
function firstBit(bits: number, from: number, to: number): number {
  if (bits === 0 || from > to || from >= gridLevels) return noBit;
  const within = bits & (-1 << from) & (-1 >>> (gridLevels - 1 - Math.min(to, gridLevels - 1)));
  return within === 0 ? noBit : 31 - Math.clz32(within & -within);
}
