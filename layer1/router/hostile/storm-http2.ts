/** For tests: what a peer of HTTP/2 does next, by the dice of a seed. */
import { endHeaders, endStream, frame, frameTypes, literals, settings, uint32 } from './frames.ts';
import type { FrameType } from './frames.ts';
import { chance, oddFields, of, statuses, upTo } from './storm-words.ts';
import type { Dice } from './storm-words.ts';

/** nghttp2 refuses most of the odd ones at once: what it lets through is what matters. */
const harmless: ReadonlySet<string> = new Set(
  'http2-settings te date cookie set-cookie location x-request-id x-forwarded-for x_forwarded_for __proto__ link x'.split(
    ' ',
  ),
);

/** Mostly some that are let through. */
function fieldsFrom(dice: Dice, most: number): string[] {
  const fields = oddFields(dice, most);
  if (chance(dice, 0.1)) return fields;
  const kept: string[] = [];
  for (let i = 0; i < fields.length; i += 2) {
    const [name = '', value = ''] = fields.slice(i, i + 2);
    if (!harmless.has(name) || /[\0\r\n]/.test(value) || value.length > 1_000) continue;
    kept.push(name, name === 'te' ? 'trailers' : value);
  }
  return kept;
}

export function oddSettings(dice: Dice): Buffer {
  const [maxStreams, initialWindow, frameBytes, headBytes, extendedConnect] = [3, 4, 5, 6, 8];
  const all: number[] = [];
  if (chance(dice, 0.3)) all.push(maxStreams, of(dice, [0, 1, 3, 1_000]));
  if (chance(dice, 0.4)) all.push(initialWindow, of(dice, [0, 1, 100, 65_535, 2 ** 31 - 1]));
  if (chance(dice, 0.2)) all.push(frameBytes, of(dice, [16_384, 1_000_000]));
  if (chance(dice, 0.2)) all.push(headBytes, of(dice, [0, 500, 65_536]));
  if (chance(dice, 0.5)) all.push(extendedConnect, 1);
  if (chance(dice, 0.05)) all.push(initialWindow, 2 ** 32 - 1);
  return settings(...all);
}

export function requestFrames(dice: Dice, host: string, stream: number): Buffer {
  const method = of(dice, ['GET', 'GET', 'HEAD', 'POST', 'POST', 'PUT', 'CONNECT', 'OPTIONS', 'get it']);
  const path = of(dice, ['/', '/a?b', '*', '', '/\xff']);
  const fields = [':method', method, ':scheme', 'http', ':authority', host, ':path', path];
  if (method === 'CONNECT') fields.push(':protocol', of(dice, ['websocket', 'h2c', 'other']));
  if (chance(dice, 0.1)) fields.push('content-length', of(dice, ['0', '5', '100000']));
  if (chance(dice, 0.1)) fields.push('expect', '100-continue');
  const flags = endHeaders | (chance(dice, 0.4) ? endStream : 0);
  return frame('headers', flags, stream, literals([...fields, ...fieldsFrom(dice, 4)]));
}

export function answerFrames(dice: Dice, stream: number): Buffer {
  const flags = endHeaders | (chance(dice, 0.2) ? endStream : 0);
  return frame('headers', flags, stream, literals([':status', of(dice, statuses), ...fieldsFrom(dice, 4)]));
}

const types = Object.keys(frameTypes) as [FrameType, ...FrameType[]];

/** Of a stream that is there, or of none. */
export function oddFrames(dice: Dice, stream: number): Buffer {
  const end = chance(dice, 0.4) ? endStream : 0;
  switch (
    of(dice, ['data', 'data', 'trailers', 'trailers', 'hint', 'window', 'reset', 'ping', 'goaway', 'settings', 'any'])
  ) {
    case 'data':
      return frame('data', end, stream, Buffer.alloc(of(dice, [0, 1, 5, 16_384]), 'd'));
    case 'trailers':
      return frame('headers', endHeaders | endStream, stream, literals(fieldsFrom(dice, 4)));
    case 'hint':
      return frame('headers', endHeaders, stream, literals([':status', '103', ...fieldsFrom(dice, 3)]));
    case 'window':
      return frame('windowUpdate', 0, of(dice, [0, stream]), uint32(of(dice, [1, 65_535, 2 ** 30])));
    case 'reset':
      return frame('reset', 0, stream, uint32(of(dice, [0, 1, 2, 7, 8, 11, 99])));
    case 'ping':
      return frame('ping', of(dice, [0, 1]), 0, Buffer.alloc(8));
    case 'goaway':
      return frame('goaway', 0, 0, uint32(of(dice, [0, stream, 2 ** 31 - 1]), of(dice, [0, 0, 2, 11])));
    case 'settings':
      return oddSettings(dice);
    case 'any':
      break;
  }
  const payload = Buffer.alloc(upTo(dice, 40), upTo(dice, 255));
  return frame(of(dice, types), upTo(dice, 255), of(dice, [0, stream, 2]), payload);
}
