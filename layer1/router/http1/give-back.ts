/** Gives the memory of a read back at once. */

/** Smaller ones cost the collector less than this. */
const worthBytes = 16_384;

/**
 * Each read of a client's socket comes in memory of its own, outside of the heap. Left to the garbage collector, that of
 * large bodies made it go through the whole heap many times a second, which cost more than all else about them.
 *
 * Nobody may use the buffer any more, a write that has not ended neither: it is empty afterwards. What shares its memory
 * with others is left alone.
 */
export function giveBack(buffer: Buffer): void {
  const memory = buffer.buffer;
  if (memory.byteLength < worthBytes || memory.byteLength !== buffer.length) return;
  if (memory instanceof ArrayBuffer) memory.transfer(0);
}
