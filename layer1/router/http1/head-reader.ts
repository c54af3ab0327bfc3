/** Puts a head together from the pieces in which it arrives. */
import { HeadProblem } from './fields.ts';

const LF = 10;
const emptyLine = Buffer.from('\r\n\r\n');
/** What is made a string at once while the end of a head is not there yet. */
const windowBytes = 4_096;

type Parse<H> = (text: string, bytes?: Uint8Array, from?: number) => H | HeadProblem | undefined;

export class HeadReader<H extends { bytes: number }> {
  readonly #parse: Parse<H>;
  readonly #problemOfPartial: (text: string) => HeadProblem | undefined;
  #text = '';
  /** Where in the last buffer the head that was read ended. */
  end = 0;

  constructor(parse: Parse<H>, problemOfPartial: (text: string) => HeadProblem | undefined) {
    this.#parse = parse;
    this.#problemOfPartial = problemOfPartial;
  }

  /** The next head, or what is wrong with it; undefined when all up to `to` was taken and it is not whole yet. */
  read(buffer: Buffer, from: number, to: number): H | HeadProblem | undefined {
    let at = from;
    while (at < to) {
      const until = Math.min(this.#endOfHead(buffer, at, to), at + windowBytes, to);
      const piece = buffer.toString('latin1', at, until);
      const isBegin = this.#text === '';
      const text = isBegin ? piece : this.#text + piece;
      // Read anew only when a line is whole: a head that trickles in costs its lines squared, and they are limited.
      const lastLine = buffer[until - 1] === LF ? text.length : piece.includes('\n') ? text.lastIndexOf('\n') + 1 : 0;
      const lines = lastLine === text.length ? text : text.slice(0, lastLine);
      const head = lastLine === 0 ? undefined : isBegin ? this.#parse(lines, buffer, at) : this.#parse(lines);
      at = until;
      if (head !== undefined) {
        this.#text = '';
        if (!(head instanceof HeadProblem)) this.end = at - (text.length - head.bytes);
        return head;
      }
      const problem = this.#problemOfPartial(text);
      if (problem !== undefined) return problem;
      this.#text = text;
    }
    return undefined;
  }

  /** Where the empty line is that a head in one piece ends with, so that of a body no string is made. */
  #endOfHead(buffer: Buffer, from: number, to: number): number {
    if (this.#text !== '' || buffer[to - 1] === LF) return to;
    const at = buffer.indexOf(emptyLine, from);
    return at < 0 ? to : at + emptyLine.length;
  }
}
