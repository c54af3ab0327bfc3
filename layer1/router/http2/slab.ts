/** Copies of what lies in a buffer that is used again. Memory of its own for each costs more than the copying. */

/** What is kept of one copy keeps all of it: little enough for that, and room for six answers of 10 KB. */
const slabBytes = 65_536;

let slab = Buffer.alloc(0);
let used = 0;

/** The bytes are the caller's. */
export function copyOf(buffer: Buffer, from: number, to: number): Buffer {
  const length = to - from;
  if (length > slabBytes / 2) return Buffer.from(buffer.subarray(from, to));
  if (used + length > slab.length) {
    slab = Buffer.allocUnsafeSlow(slabBytes);
    used = 0;
  }
  const copy = slab.subarray(used, used + length);
  used += length;
  buffer.copy(copy, 0, from, to);
  return copy;
}
