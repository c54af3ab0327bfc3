/** Reads the answer of an HTTP/1.1 backend: its head, and its body out of the frame it came in. Pure; strict (RFC 9112). */

export type AnswerHead = {
  status: number;
  /** Lower-case names. */
  fields: string[];
  /** Of the body: its length, its end by itself, or by the connection's. Of no meaning for HEAD, 1xx, 204 and 304. */
  frame: number | 'chunked' | 'until-close';
  /** What the Connection field says. */
  connection: string | undefined;
  keepsOpen: boolean;
};

const maxFields = 200;
const statusLine = /^HTTP\/1\.([01]) ([1-5]\d\d)(?: [\t\x20-\x7e\x80-\xff]*)?$/;
const fieldLine =
  /^([!#$%&'*+.^_`|~0-9A-Za-z-]+):[\t ]*([\x21-\x7e\x80-\xff](?:[\t\x20-\x7e\x80-\xff]*[\x21-\x7e\x80-\xff])?)?[\t ]*$/;

/** `text` is latin1, without the empty line at its end. Undefined for what may not be passed on. */
export function readAnswerHead(text: string): AnswerHead | undefined {
  const firstEnd = text.indexOf('\r\n');
  const [, minor, status] = statusLine.exec(firstEnd === -1 ? text : text.slice(0, firstEnd)) ?? [];
  if (status === undefined) return undefined;
  const fields = firstEnd === -1 ? [] : readFields(text.slice(firstEnd + 2));
  if (fields === undefined) return undefined;
  let length: string | undefined;
  let coding: string | undefined;
  let connection: string | undefined;
  for (let i = 0; i < fields.length; i += 2) {
    const value = fields[i + 1] ?? '';
    const name = fields[i] ?? '';
    switch (name) {
      case 'content-length':
        if (length !== undefined || !/^\d{1,15}$/.test(value)) return undefined;
        length = value;
        break;
      case 'transfer-encoding':
        if (coding !== undefined || value.toLowerCase() !== 'chunked') return undefined;
        coding = value;
        break;
      case 'connection':
        connection = connection === undefined ? value : `${connection}, ${value}`;
        break;
      default:
    }
  }
  if (coding !== undefined && (length !== undefined || minor === '0')) return undefined;
  const tokens = connection?.toLowerCase().split(/[\t ]*,[\t ]*/) ?? [];
  return {
    status: Number(status),
    fields,
    frame: coding === undefined ? (length === undefined ? 'until-close' : Number(length)) : 'chunked',
    connection,
    keepsOpen: minor === '1' ? !tokens.includes('close') : tokens.includes('keep-alive'),
  };
}

/** Of a head after its first line, or of trailers. */
export function readFields(text: string): string[] | undefined {
  const fields: string[] = [];
  for (const line of text.split('\r\n')) {
    const match = fieldLine.exec(line);
    if (match === null || fields.length >= 2 * maxFields) return undefined;
    fields.push((match[1] ?? '').toLowerCase(), match[2] ?? '');
  }
  return fields;
}

const maxLineBytes = 16_384;
const maxTrailerBytes = 65_536;

/**
 * Takes a chunked body out of its chunks. INVARIANT: what `read` gives to `onData`, over all calls, does not depend on
 * where the bytes were cut.
 */
export class ChunkedReader {
  #state: 'size' | 'data' | 'data-end' | 'trailers' = 'size';
  #left = 0;
  #line = '';
  #trailers = '';

  /**
   * Reads on. Answers how many of the bytes belonged to the body and its trailers once they have ended, undefined while
   * they have not, and -1 for what is no chunk.
   */
  read(bytes: Buffer, onData: (bytes: Buffer) => void): number | undefined {
    let at = 0;
    while (at < bytes.length) {
      if (this.#state === 'data') {
        const end = Math.min(bytes.length, at + this.#left);
        onData(at === 0 && end === bytes.length ? bytes : bytes.subarray(at, end));
        this.#left -= end - at;
        at = end;
        if (this.#left === 0) this.#state = 'data-end';
        continue;
      }
      const newline = bytes.indexOf(10, at);
      this.#line += bytes.toString('latin1', at, newline === -1 ? bytes.length : newline + 1);
      if (this.#line.length > maxLineBytes) return -1;
      if (newline === -1) return undefined;
      at = newline + 1;
      if (!this.#line.endsWith('\r\n')) return -1;
      const line = this.#line.slice(0, -2);
      this.#line = '';
      if (this.#state === 'data-end') {
        if (line !== '') return -1;
        this.#state = 'size';
      } else if (this.#state === 'size') {
        const [, digits] = /^([0-9A-Fa-f]{1,12})(?:[\t ]*;[\t\x20-\x7e\x80-\xff]*)?$/.exec(line) ?? [];
        if (digits === undefined) return -1;
        this.#left = Number.parseInt(digits, 16);
        this.#state = this.#left === 0 ? 'trailers' : 'data';
      } else {
        if (line === '') return at;
        this.#trailers += `${line}\r\n`;
        if (this.#trailers.length > maxTrailerBytes) return -1;
      }
    }
    return undefined;
  }

  /** After the end; undefined for what are no fields. */
  trailers(): string[] | undefined {
    return this.#trailers === '' ? [] : readFields(this.#trailers.slice(0, -2));
  }
}
