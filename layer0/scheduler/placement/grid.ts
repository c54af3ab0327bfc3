/**
 * Hosts of one class in 32 × 32 cells by what is free of cpu and memory, half an octave apart, so that the smallest gap
 * that is large enough is found without looking at hosts. A bitmap per anti-diagonal says which cells hold any.
 */
export const gridLevels = 32;
const diagonals = 2 * gridLevels - 1;

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

export class Grid {
  /** Hosts by cell; a cell is its cpu level × 32 + its memory level. */
  readonly cells: (number[] | undefined)[] = Array.from({ length: gridLevels * gridLevels });
  /** For cpu level + memory level: a bit per cpu level whose cell there holds a host. */
  readonly diagonals = new Int32Array(diagonals);
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

  /** The cell from (cpu, memory) up that is nearest to it, on or after the given diagonal and cpu level; -1: none. */
  nextCell(cpu: number, memory: number, diagonal: number, fromCpu: number): number {
    for (let d = Math.max(diagonal, cpu + memory); d < diagonals; d++) {
      const lowest = Math.max(cpu, d - gridLevels + 1, d === diagonal ? fromCpu : 0);
      const highest = Math.min(gridLevels - 1, d - memory);
      if (lowest > highest) continue;
      const row = 31 - Math.clz32(lowestBit((this.diagonals[d] ?? 0) & (-1 << lowest) & (-1 >>> (31 - highest))));
      if (row >= 0) return row * gridLevels + (d - row);
    }
    return -1;
  }

  #mark(cell: number, isHeld: boolean): void {
    const cpu = cell >>> 5;
    const diagonal = cpu + (cell & 31);
    const bits = this.diagonals[diagonal] ?? 0;
    this.diagonals[diagonal] = isHeld ? bits | (1 << cpu) : bits & ~(1 << cpu);
  }
}

function lowestBit(bits: number): number {
  return bits & -bits;
}
