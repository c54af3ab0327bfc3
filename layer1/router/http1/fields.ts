/** The fields of a message's head (RFC 9112 5), read strictly: what any reader downstream could take otherwise is refused. */

export const headLimits = { lineBytes: 8_192, bytes: 65_536, fields: 200 } as const;

/** Why a message is refused. A client is told; of a backend's answer it becomes a 502. */
export class HeadProblem {
  readonly status: number;
  readonly code: string;
  readonly message: string;

  constructor(status: number, code: string, message: string) {
    this.status = status;
    this.code = code;
    this.message = message;
  }
}

export function badRequest(what: string): HeadProblem {
  return new HeadProblem(400, 'bad-request', `The router refuses this request: ${what}.`);
}

export const headTooLarge = new HeadProblem(
  431,
  'head-too-large',
  `The head of the request has more than ${headLimits.bytes} bytes or ${headLimits.fields} fields.`,
);

const CR = 13;
const LF = 10;

/** 1 for every byte that may stand in a token, a field's value, a request's target. */
export const isToken = new Uint8Array(256);
export const isValue = new Uint8Array(256);
export const isTarget = new Uint8Array(256);
for (let code = 0x21; code < 0x7f; code += 1) {
  if (!'"(),/:;<=>?@[\\]{}'.includes(String.fromCharCode(code))) isToken[code] = 1;
  if (code !== 0x23) isTarget[code] = 1;
}
for (let code = 0x20; code < 0x100; code += 1) if (code !== 0x7f) isValue[code] = 1;
isValue[0x09] = 1;

/** What a field is to the router: `plain` goes on as it is, `hop` ends here. */
const kinds = ['plain', 'hop', 'length', 'coding', 'host', 'connection', 'upgrade', 'expect'] as const;
export type Kind = (typeof kinds)[number];
const plain = kinds.indexOf('plain');

/** Of a name of this length; nearly all are none of them. */
const special: readonly (readonly (readonly [string, number])[] | undefined)[] = Array.from(
  { length: 20 },
  (_, length) => {
    const all: [string, Kind][] = [
      ['te', 'hop'],
      ['host', 'host'],
      ['expect', 'expect'],
      ['upgrade', 'upgrade'],
      ['connection', 'connection'],
      ['keep-alive', 'hop'],
      ['content-length', 'length'],
      ['proxy-connection', 'hop'],
      ['transfer-encoding', 'coding'],
      ['proxy-authenticate', 'hop'],
      ['proxy-authorization', 'hop'],
    ];
    const those = all.filter(([name]) => name.length === length);
    return those.length === 0 ? undefined : those.map(([name, kind]) => [name, kinds.indexOf(kind)] as const);
  },
);

/** Of each field: where its name begins and ends, its value begins and ends, the next line begins, and which kind it is. */
const placesEach = 6;
/** Of the head that was read last: nearly always the one that is asked next. Each having its own cost more than reading it. */
const places = new Int32Array(placesEach * headLimits.fields);
/** Heads that were read so far. */
let readings = 0;

/** INVARIANT. Who finds the places taken by another head reads its own once more, from the same text to the same end. */
export class HeadFields {
  text = '';
  count = 0;
  #at = 0;
  #reading = 0;
  /** A bit for each name that is there (`nameBit`). */
  #names = 0;

  lineStart(index: number): number {
    return this.#place(index, 0);
  }

  lineEnd(index: number): number {
    return this.#place(index, 4);
  }

  kind(index: number): Kind {
    return kinds[this.#place(index, 5)] ?? 'plain';
  }

  /** In lower case. */
  name(index: number): string {
    return this.text.slice(this.#place(index, 0), this.#place(index, 1)).toLowerCase();
  }

  /** Of the name, as `nameBit` says. */
  bit(index: number): number {
    const start = this.#place(index, 0);
    return bitFor(this.#place(index, 1) - start, this.text.charCodeAt(start));
  }

  /** All of them, made anew: for who needs each as a string. */
  get names(): string[] {
    return Array.from({ length: this.count }, (_, i) => this.name(i));
  }

  /** Without making a string of it. `name` is in lower case. */
  isNamed(index: number, name: string): boolean {
    const start = this.#place(index, 0);
    return this.#place(index, 1) - start === name.length && isSame(this.text, start, name);
  }

  value(index: number): string {
    return this.text.slice(this.#place(index, 2), this.#place(index, 3));
  }

  /** All values of a field, joined. */
  get(name: string): string | undefined {
    if ((this.#names & nameBit(name)) === 0) return undefined;
    let all: string | undefined;
    for (let i = 0; i < this.count; i += 1) {
      if (!this.isNamed(i, name)) continue;
      all = all === undefined ? this.value(i) : `${all}${name === 'cookie' ? '; ' : ', '}${this.value(i)}`;
    }
    return all;
  }

  has(name: string): boolean {
    if ((this.#names & nameBit(name)) === 0) return false;
    for (let i = 0; i < this.count; i += 1) if (this.isNamed(i, name)) return true;
    return false;
  }

  /**
   * Reads lines from `at` to the empty one and answers where the body begins; undefined when the empty line is not there.
   * `text` ends with a line feed. The earliest fault counts, so that it does not matter in which pieces a head came.
   * Who has the bytes that the text was made of tells where they are: they are read in a third of the time.
   */
  read(text: string, at: number, bytes: Uint8Array = bytesOf(text), from = 0): number | HeadProblem | undefined {
    readings += 1;
    this.#reading = readings;
    this.text = text;
    this.#at = at;
    let count = 0;
    let names = 0;
    let end: number | HeadProblem | undefined;
    const to = from + text.length;
    let lineStart = from + at;
    while (lineStart < to) {
      let i = lineStart;
      while (isToken[bytes[i] ?? LF] === 1) i += 1;
      if (i === lineStart) {
        const isEmpty = bytes[i] === CR && bytes[i + 1] === LF;
        end = isEmpty ? i + 2 - from : faultAt(text, i - from, 'a line of the head is not a field');
        break;
      }
      if (bytes[i] !== 0x3a) {
        end = faultAt(text, lineStart - from, 'a field has no proper name');
        break;
      }
      const nameEnd = i;
      i += 1;
      while (isBlank(bytes[i] ?? LF)) i += 1;
      const start = i;
      while (isValue[bytes[i] ?? LF] === 1) i += 1;
      if (bytes[i] !== CR || bytes[i + 1] !== LF) {
        end = faultAt(text, lineStart - from, 'a field has a character in it that may not be there');
        break;
      }
      const lineEnd = i + 2;
      if (lineEnd - from > headLimits.bytes || count >= headLimits.fields) {
        end = headTooLarge;
        break;
      }
      while (i > start && isBlank(bytes[i - 1] ?? LF)) i -= 1;
      const place = count * placesEach;
      places[place] = lineStart - from;
      places[place + 1] = nameEnd - from;
      places[place + 2] = start - from;
      places[place + 3] = i - from;
      places[place + 4] = lineEnd - from;
      places[place + 5] = kindOf(text, lineStart - from, nameEnd - lineStart);
      names |= bitFor(nameEnd - lineStart, bytes[lineStart] ?? LF);
      count += 1;
      lineStart = lineEnd;
    }
    this.count = count;
    this.#names = names;
    return end;
  }

  #place(index: number, which: number): number {
    if (this.#reading !== readings) this.read(this.text, this.#at);
    return places[index * placesEach + which] ?? 0;
  }
}

function bytesOf(text: string): Uint8Array {
  return Buffer.from(text, 'latin1');
}

/** Most names differ in it from all that are looked for: of them no string is made. `name` is in lower case. */
export function nameBit(name: string): number {
  return bitFor(name.length, name.charCodeAt(0));
}

function bitFor(length: number, first: number): number {
  return 1 << ((length + (first | 0x20)) & 31);
}

function kindOf(text: string, at: number, length: number): number {
  const names = length < special.length ? special[length] : undefined;
  if (names === undefined) return plain;
  for (const [name, kind] of names) if (isSame(text, at, name)) return kind;
  return plain;
}

/** In any case. `name` is in lower case, and a token: of these only letters have a twin 32 places away. */
function isSame(text: string, at: number, name: string): boolean {
  for (let i = 0; i < name.length; i += 1) {
    const code = text.charCodeAt(at + i);
    if (code !== name.charCodeAt(i) && (code < 0x41 || code > 0x5a || (code | 0x20) !== name.charCodeAt(i)))
      return false;
  }
  return true;
}

/** A line that is too long as well is refused for that: cut into pieces, its fault would not have been seen yet. */
function faultAt(text: string, lineStart: number, what: string): HeadProblem {
  return text.indexOf('\n', lineStart) >= headLimits.bytes ? headTooLarge : badRequest(what);
}

export function isBlank(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

/** The length that Content-Length gives; undefined if it is not one plain number. */
export function lengthIn(value: string): number | undefined {
  if (value.length === 0 || value.length > 15) return undefined;
  let length = 0;
  for (let i = 0; i < value.length; i += 1) {
    const digit = value.charCodeAt(i) - 0x30;
    if (!(digit >= 0 && digit <= 9)) return undefined;
    length = length * 10 + digit;
  }
  // Elsewhere a leading zero may mean another base.
  return value.length > 1 && value.charCodeAt(0) === 0x30 ? undefined : length;
}

/** What Connection lists: its own words, and fields that end here. The meaning of a message cannot be changed through it. */
export class ConnectionList {
  isClose = false;
  isKeepAlive = false;
  isUpgrade = false;
  /** Fields to leave out, lower case. */
  named: string[] | undefined;

  add(value: string): void {
    // Nearly always one of these two; taking a list apart costs as much as reading the rest of the head.
    if (value === 'keep-alive') this.isKeepAlive = true;
    else if (value === 'close') this.isClose = true;
    else this.#addAll(value);
  }

  #addAll(value: string): void {
    for (const item of value.split(',')) {
      const token = item.trim().toLowerCase();
      if (token === 'close') this.isClose = true;
      else if (token === 'keep-alive') this.isKeepAlive = true;
      else if (token === 'upgrade') this.isUpgrade = true;
      else if (token !== '' && !endToEnd.has(token)) (this.named ??= []).push(token);
    }
  }
}

const endToEnd = new Set(['host', 'content-length', 'authorization', 'cookie', 'content-type', 'transfer-encoding']);
