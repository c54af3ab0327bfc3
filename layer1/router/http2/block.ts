/** Pieces of bodies that are kept for a while take little more memory than they have bytes. */

/** Smaller ones are put together: an object for each takes many times what is in it. */
export const smallBytes = 2_048;
const blockBytes = 4_096;

export class Block {
  #memory: Buffer | undefined;
  length = 0;

  hasRoom(piece: Buffer): boolean {
    return this.length + piece.length <= blockBytes;
  }

  add(piece: Buffer): void {
    this.#memory ??= Buffer.allocUnsafeSlow(blockBytes);
    this.length += piece.copy(this.#memory, this.length);
  }

  get bytes(): Buffer | undefined {
    return this.#memory?.subarray(0, this.length);
  }
}

/** What is kept of a piece would keep all that was read with it. */
export function alone(piece: Buffer): Buffer {
  if (piece.length * 2 >= piece.buffer.byteLength) return piece;
  const copy = Buffer.allocUnsafeSlow(piece.length);
  piece.copy(copy);
  return copy;
}
