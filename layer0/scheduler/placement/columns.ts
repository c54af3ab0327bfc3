/**
 * What is free on each host, a column per resource: the part of the cell that a scheduler copies before it thinks.
 *
 * Numbers only, in whatever unit the caller keeps to (bytes and thousandths of a core in the cell): whole numbers up to
 * 2^53 are exact. A host is its index.
 */
export class Columns {
  memoryCapacity: Float64Array;
  cpuCapacity: Float64Array;
  memoryFree: Float64Array;
  cpuFree: Float64Array;
  /** How many claims were ever made on the host; what frees does not count. */
  sequence: Float64Array;

  constructor(size: number) {
    this.memoryCapacity = new Float64Array(size);
    this.cpuCapacity = new Float64Array(size);
    this.memoryFree = new Float64Array(size);
    this.cpuFree = new Float64Array(size);
    this.sequence = new Float64Array(size);
  }

  get size(): number {
    return this.memoryFree.length;
  }

  get byteLength(): number {
    return this.memoryFree.byteLength * 5;
  }

  grow(size: number): void {
    this.memoryCapacity = grown(this.memoryCapacity, size);
    this.cpuCapacity = grown(this.cpuCapacity, size);
    this.memoryFree = grown(this.memoryFree, size);
    this.cpuFree = grown(this.cpuFree, size);
    this.sequence = grown(this.sequence, size);
  }

  /** An empty host. */
  reset(index: number, memory: number, cpu: number): void {
    this.memoryCapacity[index] = memory;
    this.memoryFree[index] = memory;
    this.cpuCapacity[index] = cpu;
    this.cpuFree[index] = cpu;
    this.sequence[index] = 0;
  }

  /** Takes over another state of the same hosts: a scheduler's private copy, brought up to date. */
  copyFrom(other: Columns): void {
    if (other.size !== this.size) this.grow(other.size);
    this.memoryCapacity.set(other.memoryCapacity);
    this.cpuCapacity.set(other.cpuCapacity);
    this.memoryFree.set(other.memoryFree);
    this.cpuFree.set(other.cpuFree);
    this.sequence.set(other.sequence);
  }

  fits(index: number, memory: number, cpu: number, count = 1): boolean {
    return (this.memoryFree[index] ?? 0) >= memory * count && (this.cpuFree[index] ?? 0) >= cpu * count;
  }

  /** How many of this size still fit, at most `limit`. */
  roomFor(index: number, memory: number, cpu: number, limit: number): number {
    const byMemory = memory > 0 ? Math.floor((this.memoryFree[index] ?? 0) / memory) : limit;
    const byCpu = cpu > 0 ? Math.floor((this.cpuFree[index] ?? 0) / cpu) : (this.cpuFree[index] ?? 0) >= 0 ? limit : 0;
    return Math.max(0, Math.min(limit, byMemory, byCpu));
  }

  /** Takes, whether it fits or not. */
  claim(index: number, memory: number, cpu: number, count = 1): void {
    this.memoryFree[index] = (this.memoryFree[index] ?? 0) - memory * count;
    this.cpuFree[index] = (this.cpuFree[index] ?? 0) - cpu * count;
    this.sequence[index] = (this.sequence[index] ?? 0) + count;
  }

  release(index: number, memory: number, cpu: number, count = 1): void {
    this.memoryFree[index] = (this.memoryFree[index] ?? 0) + memory * count;
    this.cpuFree[index] = (this.cpuFree[index] ?? 0) + cpu * count;
  }

  /** The part that is claimed, by whichever resource is scarcer, from 0 to 1. */
  fill(index: number): number {
    const memory = this.memoryCapacity[index] ?? 0;
    const cpu = this.cpuCapacity[index] ?? 0;
    const byMemory = memory > 0 ? 1 - (this.memoryFree[index] ?? 0) / memory : 0;
    return cpu > 0 ? Math.max(byMemory, 1 - (this.cpuFree[index] ?? 0) / cpu) : byMemory;
  }
}

function grown(column: Float64Array, size: number): Float64Array {
  const larger = new Float64Array(size);
  larger.set(column);
  return larger;
}
