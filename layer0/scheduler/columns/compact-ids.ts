/** Ids in twelve bytes: `<shortId>` and `<shortId>-<number in base 36>` are three numbers, any other is kept once as text. */
import { FlynnError } from '@flynn/kit/errors';

const alphabet = 'abcdefghijklmnopqrstuvwxyz0123456789';
const half = 6;
const length = 2 * half;
/** No six characters come to this much. */
const isOther = 0xffff_ffff;
const dash = 45;
const zero = 48;

/** Value of each character code, -1 for what is not of the alphabet. */
const values = Int8Array.from({ length: 128 }, (_, code) => alphabet.indexOf(String.fromCharCode(code)));

/** `number` is one more than the number behind the dash, 0 without one. */
export type CompactId = Readonly<{ high: number; low: number; number: number }>;

/** INVARIANTS. One text has one number as long as somebody holds it; `free` is called as often as `take`. */
export class CompactIds {
  readonly #others: (string | undefined)[] = [];
  readonly #numbers = new Map<string, { at: number; holders: number }>();
  readonly #free: number[] = [];

  /** Undefined for an id that nobody took. */
  find(text: string): CompactId | undefined {
    const short = parse(text);
    if (short !== undefined) return short;
    const known = this.#numbers.get(text);
    return known === undefined ? undefined : { high: isOther, low: known.at, number: 0 };
  }

  take(text: string): CompactId {
    const short = parse(text);
    if (short !== undefined) return short;
    const known = this.#numbers.get(text);
    if (known !== undefined) {
      known.holders += 1;
      return { high: isOther, low: known.at, number: 0 };
    }
    const at = this.#free.pop() ?? this.#others.length;
    this.#others[at] = text;
    this.#numbers.set(text, { at, holders: 1 });
    return { high: isOther, low: at, number: 0 };
  }

  free(high: number, low: number): void {
    if (high !== isOther) return;
    const text = this.#others[low];
    const known = text === undefined ? undefined : this.#numbers.get(text);
    if (text === undefined || known === undefined) return;
    known.holders -= 1;
    if (known.holders > 0) return;
    this.#numbers.delete(text);
    this.#others[low] = undefined;
    this.#free.push(low);
  }

  textOf(high: number, low: number, number: number): string {
    if (high !== isOther) {
      const id = halfText(high, half) + halfText(low, half);
      return number === 0 ? id : `${id}-${(number - 1).toString(36)}`;
    }
    const text = this.#others[low];
    if (text === undefined) throw new FlynnError('internal', `there is no id number ${low}`);
    return text;
  }
}

function parse(text: string): CompactId | undefined {
  if (text.length < length) return undefined;
  const high = halfOf(text, 0);
  const low = halfOf(text, half);
  if (high < 0 || low < 0) return undefined;
  if (text.length === length) return { high, low, number: 0 };
  const number = numberOf(text);
  return number < 0 ? undefined : { high, low, number: number + 1 };
}

/** What stands behind the dash; -1 for anything that would not be written again as it stands there. */
function numberOf(text: string): number {
  const from = length + 1;
  const digits = text.length - from;
  if (text.charCodeAt(length) !== dash || digits < 1 || digits > half) return -1;
  // A number written with zeros in front would come back without them.
  if (digits > 1 && text.charCodeAt(from) === zero) return -1;
  let value = 0;
  for (let at = from; at < text.length; at += 1) {
    const digit = values[text.charCodeAt(at)] ?? -1;
    if (digit < 0) return -1;
    value = value * alphabet.length + (digit < 26 ? digit + 10 : digit - 26);
  }
  return value;
}

function halfOf(text: string, from: number): number {
  let value = 0;
  for (let at = from; at < from + half; at += 1) {
    const digit = values[text.charCodeAt(at)] ?? -1;
    if (digit < 0) return -1;
    value = value * alphabet.length + digit;
  }
  return value;
}

/** Two characters at a time. */
const pairs = Array.from({ length: alphabet.length ** 2 }, (_, at) =>
  alphabet.charAt(Math.floor(at / alphabet.length)).concat(alphabet.charAt(at % alphabet.length)),
);

function halfText(value: number, digits: number): string {
  let text = '';
  let rest = value;
  for (let at = 0; at < digits; at += 2) {
    text = (pairs[rest % pairs.length] ?? '') + text;
    rest = Math.floor(rest / pairs.length);
  }
  return text;
}
