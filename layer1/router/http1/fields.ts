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

/** What a field is to the router: `plain` goes on as it is, `hop` ends here, `body` says where the body ends. */
export type Kind = 'plain' | 'hop' | 'body' | 'host' | 'connection' | 'upgrade' | 'expect';

function kindOf(name: string): Kind {
  switch (name.length) {
    case 2:
      return name === 'te' ? 'hop' : 'plain';
    case 4:
      return name === 'host' ? 'host' : 'plain';
    case 6:
      return name === 'expect' ? 'expect' : 'plain';
    case 7:
      return name === 'upgrade' ? 'upgrade' : 'plain';
    case 10:
      return name === 'connection' ? 'connection' : name === 'keep-alive' ? 'hop' : 'plain';
    case 14:
      return name === 'content-length' ? 'body' : 'plain';
    case 16:
      return name === 'proxy-connection' ? 'hop' : 'plain';
    case 17:
      return name === 'transfer-encoding' ? 'body' : 'plain';
    case 18:
      return name === 'proxy-authenticate' ? 'hop' : 'plain';
    case 19:
      return name === 'proxy-authorization' ? 'hop' : 'plain';
    default:
      return 'plain';
  }
}

/** For each field four places in the text: where its line begins, its value begins and ends, and the next line begins. */
export class HeadFields {
  text = '';
  readonly names: string[] = [];
  readonly kinds: Kind[] = [];
  readonly #marks: number[] = [];

  lineStart(index: number): number {
    return this.#marks[index * 4] ?? 0;
  }

  lineEnd(index: number): number {
    return this.#marks[index * 4 + 3] ?? 0;
  }

  value(index: number): string {
    return this.text.slice(this.#marks[index * 4 + 1], this.#marks[index * 4 + 2]);
  }

  /** All values of a field, joined. */
  get(name: string): string | undefined {
    let all: string | undefined;
    for (let i = 0; i < this.names.length; i += 1) {
      if (this.names[i] !== name) continue;
      all = all === undefined ? this.value(i) : `${all}${name === 'cookie' ? '; ' : ', '}${this.value(i)}`;
    }
    return all;
  }

  /**
   * Reads lines from `at` to the empty one and answers where the body begins; undefined when the empty line is not there.
   * `text` ends with a line feed. The earliest fault counts, so that it does not matter in which pieces a head came.
   */
  read(text: string, at: number): number | HeadProblem | undefined {
    this.text = text;
    while (at < text.length) {
      let i = at;
      while (isToken[text.charCodeAt(i)] === 1) i += 1;
      if (i === at) {
        if (text.charCodeAt(at) === CR && text.charCodeAt(at + 1) === LF) return at + 2;
        return faultAt(text, at, 'a line of the head is not a field');
      }
      if (text.charCodeAt(i) !== 0x3a) return faultAt(text, at, 'a field has no proper name');
      const name = text.slice(at, i).toLowerCase();
      i += 1;
      while (isBlank(text.charCodeAt(i))) i += 1;
      const start = i;
      while (isValue[text.charCodeAt(i)] === 1) i += 1;
      if (text.charCodeAt(i) !== CR || text.charCodeAt(i + 1) !== LF) {
        return faultAt(text, at, 'a field has a character in it that may not be there');
      }
      const lineEnd = i + 2;
      if (lineEnd > headLimits.bytes || this.names.length >= headLimits.fields) return headTooLarge;
      while (i > start && isBlank(text.charCodeAt(i - 1))) i -= 1;
      this.names.push(name);
      this.kinds.push(kindOf(name));
      this.#marks.push(at, start, i, lineEnd);
      at = lineEnd;
    }
    return undefined;
  }
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
