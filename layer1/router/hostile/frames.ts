/** For tests: HTTP/2 as no well-behaved peer would say it (RFC 9113 4.1, RFC 7541). */

export const frameTypes = {
  data: 0,
  headers: 1,
  priority: 2,
  reset: 3,
  settings: 4,
  pushPromise: 5,
  ping: 6,
  goaway: 7,
  windowUpdate: 8,
  continuation: 9,
  altSvc: 10,
  origin: 12,
} as const;
export type FrameType = keyof typeof frameTypes;

export const endStream = 1;
export const endHeaders = 4;
export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n');
const headBytes = 9;

export function frame(type: FrameType, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)): Buffer {
  const head = Buffer.alloc(headBytes);
  head.writeUIntBE(payload.length, 0, 3);
  head[3] = frameTypes[type];
  head[4] = flags;
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

/** HPACK literals without indexing (RFC 7541 6.2.2): what no well-behaved client would let through. */
export function literals(fields: readonly string[]): Buffer {
  const parts = fields.map((text) => {
    const bytes = Buffer.from(text, 'latin1');
    return Buffer.concat([lengthOf(bytes.length), bytes]);
  });
  return Buffer.concat(parts.flatMap((part, i) => (i % 2 === 0 ? [Buffer.from([0]), part] : [part])));
}

/** RFC 7541 5.1, with a prefix of seven bits. */
function lengthOf(length: number): Buffer {
  if (length < 127) return Buffer.from([length]);
  const bytes = [127];
  let left = length - 127;
  for (; left >= 128; left = Math.floor(left / 128)) bytes.push((left % 128) + 128);
  return Buffer.from([...bytes, left]);
}

export function uint32(...values: number[]): Buffer {
  const bytes = Buffer.alloc(4 * values.length);
  for (const [i, value] of values.entries()) bytes.writeUInt32BE(value, 4 * i);
  return bytes;
}

/** Id, value, id, value …. */
export function settings(...pairs: number[]): Buffer {
  const bytes = Buffer.alloc(3 * pairs.length);
  for (let i = 0; i + 1 < pairs.length; i += 2) {
    bytes.writeUInt16BE(pairs[i] ?? 0, 3 * i);
    bytes.writeUInt32BE(pairs[i + 1] ?? 0, 3 * i + 2);
  }
  return frame('settings', 0, 0, bytes);
}

/** The whole frames at the beginning of it, and what is left. */
export function framesIn(bytes: Buffer): { frames: { type: number; flags: number; stream: number }[]; rest: Buffer } {
  const frames = [];
  let at = 0;
  while (at + headBytes <= bytes.length) {
    const length = bytes.readUIntBE(at, 3);
    if (at + headBytes + length > bytes.length) break;
    frames.push({ type: bytes[at + 3] ?? 0, flags: bytes[at + 4] ?? 0, stream: bytes.readUInt32BE(at + 5) });
    at += headBytes + length;
  }
  return { frames, rest: bytes.subarray(at) };
}
