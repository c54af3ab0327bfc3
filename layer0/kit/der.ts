/** ASN.1 in DER, as far as certificates need it (X.690): what is written is whole elements, each in its shortest form. */
import { isIP } from 'node:net';
import { FlynnError } from './errors.ts';

const tags = {
  boolean: 0x01,
  integer: 0x02,
  bits: 0x03,
  octets: 0x04,
  objectId: 0x06,
  utf8: 0x0c,
  printable: 0x13,
  utcTime: 0x17,
  time: 0x18,
  sequence: 0x30,
  set: 0x31,
} as const;

/** In place of the tag that the standard's type has. */
const contextClass = 0x80;
const constructed = 0x20;

export const yes = element(tags.boolean, Buffer.from([0xff]));
export const sequence = (...elements: readonly Buffer[]): Buffer => element(tags.sequence, ...elements);
export const set = (...elements: readonly Buffer[]): Buffer => element(tags.set, ...elements);
export const octets = (content: Buffer): Buffer => element(tags.octets, content);
/** `[number] EXPLICIT`: around the element. */
export const explicit = (number: number, inner: Buffer): Buffer => element(contextClass | constructed | number, inner);
/** `[number] IMPLICIT` of a type without elements of its own. */
export const implicit = (number: number, content: Buffer): Buffer => element(contextClass | number, content);

/** Of an integer that is not negative, its bytes; none of them needs to be there for its sign. */
export function integer(bytes: Buffer): Buffer {
  const first = bytes.findIndex((byte) => byte !== 0);
  const shortest = first === -1 ? Buffer.alloc(1) : bytes.subarray(first);
  return element(tags.integer, ...(shortest.readUInt8(0) < 0x80 ? [] : [Buffer.alloc(1)]), shortest);
}

export const smallInteger = (value: number): Buffer => integer(Buffer.from([value]));

/** `unused`: how many of the last byte's bits are none. */
export function bits(content: Buffer, unused = 0): Buffer {
  return element(tags.bits, Buffer.from([unused]), content);
}

/** Of `1.2.840.10045`. */
export function objectId(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  return element(tags.objectId, Buffer.from([first * 40 + second, ...rest.flatMap(inSevens)]));
}

/** Seven bits in each byte, the highest first; all but the last say that one follows. */
function inSevens(arc: number): number[] {
  const bytes = [arc % 128];
  for (let left = Math.floor(arc / 128); left > 0; left = Math.floor(left / 128)) bytes.unshift(0x80 | (left % 128));
  return bytes;
}

export function text(value: string): Buffer {
  const isPrintable = /^[A-Za-z0-9 '()+,\-./:=?]*$/.test(value);
  return element(isPrintable ? tags.printable : tags.utf8, Buffer.from(value, 'utf8'));
}

/** To the second; from 2050 on of the type with four digits for the year (RFC 5280, 4.1.2.5). */
export function time(at: Date): Buffer {
  const digits = `${at
    .toISOString()
    .slice(0, 19)
    .replaceAll(/[^0-9]/g, '')}Z`;
  return at.getUTCFullYear() < 2050
    ? element(tags.utcTime, Buffer.from(digits.slice(2), 'latin1'))
    : element(tags.time, Buffer.from(digits, 'latin1'));
}

/** The 4 or 16 bytes of an IP address. */
export function addressBytes(address: string): Buffer {
  if (isIP(address) === 4) return Buffer.from(address.split('.').map(Number));
  // Written its one way: in hexadecimal, and with one gap at most.
  const { hostname } = new URL(`http://[${address}]`);
  const [head = [], tail = []] = hostname
    .slice(1, -1)
    .split('::')
    .map((part) => part.split(':').filter((group) => group !== ''));
  const gap = Array.from({ length: 8 - head.length - tail.length }, () => '0');
  return Buffer.from([...head, ...gap, ...tail].map((group) => group.padStart(4, '0')).join(''), 'hex');
}

function element(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents);
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content.length)]), content]);
}

function lengthOf(length: number): number[] {
  if (length < 0x80) return [length];
  const bytes = [];
  for (let left = length; left > 0; left = Math.floor(left / 256)) bytes.unshift(left % 256);
  return [0x80 | bytes.length, ...bytes];
}

/** `whole` is the element with its tag and length. */
type Element = Readonly<{ tag: number; whole: Buffer; content: Buffer }>;

/** The elements one after the other; of a sequence's content those in it. Throws `invalid` where they are cut off. */
export function elementsIn(content: Buffer): Element[] {
  const found: Element[] = [];
  for (let at = 0; at < content.length;) {
    const [tag = 0, first = 0] = content.subarray(at, at + 2);
    const lengthBytes = first < 0x80 ? 0 : first & 0x7f;
    const start = at + 2 + lengthBytes;
    const length = lengthBytes === 0 ? first : Number(`0x${content.subarray(at + 2, start).toString('hex') || '0'}`);
    const end = start + length;
    if (end > content.length) throw new FlynnError('invalid', 'this certificate is cut off');
    found.push({ tag, whole: content.subarray(at, end), content: content.subarray(start, end) });
    at = end;
  }
  return found;
}
