/** Which message comes next? Mutations of the corpus and of ordinary requests; the same seed gives the same messages. */
import { corpus } from './corpus.ts';
import { chunkOf, hostLine, inner, lastChunk, posting } from './corpus-parts.ts';

/** Numbers in [0, 1). Mulberry32. */
export type Random = () => number;

export function randomFrom(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const ordinary: readonly string[] = [
  `GET /a?b=c HTTP/1.1\r\n${hostLine}Accept: */*\r\nUser-Agent: x\r\n\r\n`,
  posting('Content-Length: 5\r\n', 'hello'),
  posting('Transfer-Encoding: chunked\r\n', `${chunkOf('hello')}${chunkOf('world!')}${lastChunk}`),
  posting('Transfer-Encoding: chunked\r\nTrailer: X-Sum\r\n', `5;a=b\r\nhello\r\n0\r\nX-Sum: 1\r\n\r\n`),
  posting(`Content-Length: ${inner.length}\r\n`, inner),
  posting('Transfer-Encoding: chunked\r\n', `${chunkOf(inner)}${lastChunk}`),
  `GET /1 HTTP/1.1\r\n${hostLine}\r\nGET /2 HTTP/1.1\r\n${hostLine}\r\n`,
  `PUT /x HTTP/1.1\r\n${hostLine}Expect: 100-continue\r\nContent-Length: 3\r\n\r\nabc`,
  `POST / HTTP/1.0\r\n${hostLine}Connection: keep-alive\r\nContent-Length: 3\r\n\r\nabc`,
];
/** Long ones only slow it down: their limits are the corpus's. What upgrades has no end that others would agree on. */
const seeds: readonly string[] = [
  ...ordinary,
  ...corpus.map(({ bytes }) => bytes).filter((bytes) => bytes.length < 2_000 && !/upgrade/i.test(bytes)),
];

const words: readonly string[] = [
  '\r\n',
  '\n',
  '\r',
  '\r\n\r\n',
  ' ',
  '\t',
  '\v',
  '\f',
  '\x00',
  '\x7f',
  '\x85',
  '\xa0',
  '\xff',
  ':',
  ';',
  ',',
  '"',
  '=',
  '0',
  '5',
  'a',
  '-',
  '+',
  '_',
  '0\r\n\r\n',
  '5\r\nhello\r\n',
  ';a=b',
  ';\n',
  'chunked',
  'identity',
  'Content-Length: 5\r\n',
  'Content-Length: 0\r\n',
  'Content-Length: 6\r\n',
  'Transfer-Encoding: chunked\r\n',
  'Transfer-Encoding: identity\r\n',
  'Transfer-Encoding:',
  hostLine,
  'Connection: close\r\n',
  'Connection: keep-alive\r\n',
  'Connection: Content-Length\r\n',
  'Expect: 100-continue\r\n',
  'Trailer: X\r\n',
  'X: y\r\n',
  ' X: y\r\n',
  'X: y\r\n z\r\n',
  'HTTP/1.1',
  'HTTP/1.0',
  'HTTP/0.9',
  'HEAD ',
  'OPTIONS ',
  'http://app.test',
  inner,
];

/** What is mutated: half of the time something ordinary, since most of the rest is refused as it is. */
export type Seeds = { readonly ordinary: readonly string[]; readonly all: readonly string[] };

export const requestSeeds: Seeds = { ordinary, all: seeds };

export function nextMessage(random: Random, { ordinary, all }: Seeds): string {
  let message = pick(random() < 0.5 ? ordinary : all, random);
  for (let left = 1 + Math.floor(random() * 3); left > 0; left -= 1) message = pick(mutations, random)(message, random);
  return message;
}

type Mutation = (message: string, random: Random) => string;

const mutations: readonly Mutation[] = [
  insertWord,
  insertWord,
  (message, random) => replaced(message, place(message, random), 1, pick(words, random)),
  (message, random) => replaced(message, place(message, random), 1, String.fromCharCode(Math.floor(random() * 256))),
  (message, random) => replaced(message, place(message, random), 1 + Math.floor(random() * 3), ''),
  (message, random) => overLines(message, (lines, at) => lines.splice(at, 0, lines[at] ?? ''), random),
  (message, random) => overLines(message, (lines, at) => lines.splice(at, 1), random),
  (message, random) =>
    overLines(
      message,
      (lines, at) => lines.splice(at, 0, ...lines.splice(Math.floor(random() * lines.length), 1)),
      random,
    ),
  (message, random) =>
    overLines(message, (lines, at) => lines.splice(at, 0, pick(pick(seeds, random).split('\r\n'), random)), random),
  // A number that is off by one, or of another base.
  (message, random) =>
    message.replaceAll(/\d+/g, (digits) =>
      random() < 0.3 ? String(Number(digits) + (random() < 0.5 ? 1 : -1)) : digits,
    ),
  (message, random) =>
    message.replaceAll('\r\n', (end) => (random() < 0.1 ? pick(['\n', '\r', '\r\r\n', '\n\r', ''], random) : end)),
  (message, random) => message.replaceAll(/[a-z]+/gi, (word) => (random() < 0.1 ? word.toUpperCase() : word)),
];

function insertWord(message: string, random: Random): string {
  return replaced(message, place(message, random), 0, pick(words, random));
}

function replaced(message: string, at: number, length: number, by: string): string {
  return message.slice(0, at) + by + message.slice(at + length);
}

/** Half of the time where something ends or begins: readers differ there. */
function place(message: string, random: Random): number {
  const anywhere = Math.floor(random() * (message.length + 1));
  if (random() < 0.5) return anywhere;
  const found = message.slice(anywhere).search(/[\r\n:;, ]/);
  return found < 0 ? anywhere : anywhere + found + (random() < 0.5 ? 0 : 1);
}

function overLines(message: string, change: (lines: string[], at: number) => unknown, random: Random): string {
  const lines = message.split('\r\n');
  change(lines, Math.floor(random() * lines.length));
  return lines.join('\r\n');
}

function pick<T>(values: readonly [T, ...T[]] | readonly T[], random: Random): T {
  const value = values[Math.floor(random() * values.length)];
  if (value === undefined) throw new RangeError('nothing to pick from');
  return value;
}
