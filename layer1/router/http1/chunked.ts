/**
 * Where a chunked body ends (RFC 9112 7.1), without looking at what is in it. The bytes go on as they are; only fields
 * after the body are read, since some of them must not be there.
 */
import { mayFollowBody } from '../trailers.ts';
import { HeadFields, HeadProblem, isToken, isValue } from './fields.ts';

const CR = 13;
const LF = 10;
const SEMICOLON = 0x3b;
const lineBytes = 16_384;
const trailerBytes = 16_384;

type State =
  | 'size'
  | 'extension'
  | 'size-lf'
  | 'data'
  | 'data-cr'
  | 'data-lf'
  | 'last'
  | 'last-lf'
  | 'trailers'
  | 'done'
  | 'bad';

export class ChunkedBody {
  #state: State = 'size';
  #left = 0;
  #digits = 0;
  #line = 0;
  #extension = noExtension;
  #trailers = '';
  /** Of the data alone. */
  payloadBytes = 0;
  /** The fields that came after the body, as they go on, with the line that ends them; empty if there were none. */
  tail = '';
  /** Up to where the last `pass` took what belongs to the body. */
  taken = 0;
  /** Where the data lies of which the last `step` said that it was passed. */
  dataFrom = 0;
  dataTo = 0;

  get isDone(): boolean {
    return this.#state === 'done';
  }

  get isBad(): boolean {
    return this.#state === 'bad';
  }

  /**
   * Takes what belongs to the body (up to `taken`), and answers up to where it goes on as it is: the two differ by trailers,
   * which go on as `tail`.
   */
  pass(buffer: Buffer, from: number, to: number): number {
    let at = from;
    while (at < to && this.#state !== 'done' && this.#state !== 'bad') {
      if (this.#state === 'trailers') {
        this.taken = this.#takeTrailers(buffer, at, to);
        return at;
      }
      at = this.step(buffer, at, to);
    }
    this.taken = at;
    return at;
  }

  /** One piece of frame, or of data: then `dataFrom` and `dataTo` say where. */
  step(buffer: Buffer, from: number, to: number): number {
    let at = from;
    this.dataFrom = at;
    this.dataTo = at;
    while (at < to) {
      const code = buffer[at] ?? 0;
      switch (this.#state) {
        case 'size': {
          const digit = digitOf(code);
          if (digit >= 0) {
            this.#left = this.#left * 16 + digit;
            this.#digits += 1;
            // Enough for what a number holds exactly.
            if (this.#digits > 13) return this.#fail(at);
          } else if (this.#digits === 0) return this.#fail(at);
          else if (code === CR) this.#state = 'size-lf';
          else if (code === SEMICOLON) {
            this.#extension = new Extension();
            this.#state = 'extension';
          } else return this.#fail(at);
          break;
        }
        case 'extension':
          this.#line += 1;
          if (code === CR && this.#extension.canEnd) this.#state = 'size-lf';
          else if (!this.#extension.take(code) || this.#line > lineBytes) return this.#fail(at);
          break;
        case 'size-lf':
          if (code !== LF) return this.#fail(at);
          this.#state = this.#left === 0 ? 'last' : 'data';
          this.#digits = 0;
          this.#line = 0;
          break;
        case 'data': {
          const bytes = Math.min(this.#left, to - at);
          this.#left -= bytes;
          this.payloadBytes += bytes;
          this.dataFrom = at;
          this.dataTo = at + bytes;
          if (this.#left === 0) this.#state = 'data-cr';
          return at + bytes;
        }
        case 'data-cr':
          if (code !== CR) return this.#fail(at);
          this.#state = 'data-lf';
          break;
        case 'data-lf':
          if (code !== LF) return this.#fail(at);
          this.#state = 'size';
          break;
        case 'last':
          if (code !== CR) {
            this.#state = 'trailers';
            return at;
          }
          this.#state = 'last-lf';
          break;
        case 'last-lf':
          if (code !== LF) return this.#fail(at);
          this.#state = 'done';
          return at + 1;
        case 'trailers':
          return this.#takeTrailers(buffer, at, to);
        case 'done':
        case 'bad':
          return at;
      }
      at += 1;
    }
    return at;
  }

  #takeTrailers(buffer: Buffer, from: number, to: number): number {
    const before = this.#trailers.length;
    const piece = buffer.toString('latin1', from, Math.min(to, from + trailerBytes + 1));
    const text = this.#trailers + piece;
    const fields = new HeadFields();
    const end = piece.includes('\n') ? fields.read(text.slice(0, text.lastIndexOf('\n') + 1), 0) : undefined;
    if (end instanceof HeadProblem || (end === undefined && text.length > trailerBytes)) return this.#fail(from);
    if (end === undefined) {
      this.#trailers = text;
      return to;
    }
    for (let i = 0; i < fields.count; i += 1) {
      if (mayFollowBody(fields.name(i))) this.tail += text.slice(fields.lineStart(i), fields.lineEnd(i));
    }
    this.tail += '\r\n';
    this.#state = 'done';
    return from + end - before;
  }

  #fail(at: number): number {
    this.#state = 'bad';
    return at;
  }
}

/** After the semicolon: `name`, `name=token` or `name="quoted"`, and perhaps another. Blanks are allowed by none too many. */
class Extension {
  #part: 'name' | 'value' | 'quoted' | 'escaped' | 'after' = 'name';
  #hasAny = false;

  get canEnd(): boolean {
    return this.#part === 'after' || ((this.#part === 'name' || this.#part === 'value') && this.#hasAny);
  }

  /** Whether it may stand here. */
  take(code: number): boolean {
    switch (this.#part) {
      case 'name':
      case 'value':
        if (isToken[code] === 1) this.#hasAny = true;
        else if (code === SEMICOLON && this.#hasAny) this.#next('name');
        else if (code === 0x3d && this.#part === 'name' && this.#hasAny) this.#next('value');
        else if (code === 0x22 && this.#part === 'value' && !this.#hasAny) this.#next('quoted');
        else return false;
        return true;
      case 'quoted':
        if (code === 0x22) this.#next('after');
        else if (code === 0x5c) this.#next('escaped');
        return isValue[code] === 1;
      case 'escaped':
        this.#next('quoted');
        return isValue[code] === 1;
      case 'after':
        break;
    }
    this.#next('name');
    return code === SEMICOLON;
  }

  #next(part: 'name' | 'value' | 'quoted' | 'escaped' | 'after'): void {
    this.#part = part;
    this.#hasAny = false;
  }
}

const noExtension = new Extension();

function digitOf(code: number): number {
  if (code >= 0x30 && code <= 0x39) return code - 0x30;
  const letter = code | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}
