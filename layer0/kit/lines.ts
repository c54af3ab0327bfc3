/**
 * Cuts a stream of bytes into lines at \n, without the line end (\n or \r\n). A line longer than `maxBytes` comes out in
 * pieces of at most that, never cut inside a UTF-8 character; bytes that are not UTF-8 become U+FFFD.
 */
export class LineSplitter {
  readonly #maxBytes: number;
  #pending: Buffer = Buffer.alloc(0);

  /** At least 4: room for any one character. */
  constructor(options: { maxBytes: number }) {
    this.#maxBytes = Math.max(4, options.maxBytes);
  }

  push(chunk: Uint8Array): string[] {
    let rest: Buffer = this.#pending.length === 0 ? Buffer.from(chunk) : Buffer.concat([this.#pending, chunk]);
    const lines: string[] = [];
    for (;;) {
      const end = rest.indexOf(0x0a);
      // One byte more than a full piece may be a line's \r, whose \n is still to come.
      if (end < 0 && rest.length <= this.#maxBytes + 1) break;
      if (end < 0) {
        rest = this.#cutPiece(rest, lines);
        continue;
      }
      this.#addLine(rest.subarray(0, end), lines);
      rest = rest.subarray(end + 1);
    }
    // A copy: what is left is small, and the chunk it came from may be large.
    this.#pending = Buffer.from(rest);
    return lines;
  }

  /** What is left after the last line end, as the last line. */
  flush(): string[] {
    const rest = this.#pending;
    this.#pending = Buffer.alloc(0);
    const lines: string[] = [];
    if (rest.length > 0) this.#addLine(rest, lines);
    return lines;
  }

  #addLine(line: Buffer, lines: string[]): void {
    let rest = line.at(-1) === 0x0d ? line.subarray(0, -1) : line;
    while (rest.length > this.#maxBytes) rest = this.#cutPiece(rest, lines);
    lines.push(rest.toString('utf8'));
  }

  /** Moves one piece of a longer line to `lines`. */
  #cutPiece(rest: Buffer, lines: string[]): Buffer {
    const cut = characterStart(rest, this.#maxBytes);
    lines.push(rest.toString('utf8', 0, cut));
    return rest.subarray(cut);
  }
}

/** The last place at or before `limit` where a UTF-8 character starts; `limit` itself if there is none near it. */
function characterStart(bytes: Buffer, limit: number): number {
  for (let at = limit; at > limit - 4 && at > 0; at -= 1) {
    if (((bytes[at] ?? 0) & 0xc0) !== 0x80) return at;
  }
  return limit;
}
