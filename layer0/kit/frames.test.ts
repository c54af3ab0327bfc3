import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { hasCode } from './errors.ts';
import { type Frame, encodeFrame, frameLimitBytes, readFrames } from './frames.ts';

const data = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes));
const anyFrame: fc.Arbitrary<Frame> = fc.oneof(
  fc.record({ kind: fc.constantFrom('stdin', 'stdout', 'stderr'), data }),
  fc.constant<Frame>({ kind: 'stdin-end' }),
  fc.constant<Frame>({ kind: 'ping' }),
  fc.record({ kind: fc.constant('resize'), columns: fc.nat(0xffff), rows: fc.nat(0xffff) }),
  fc.record({ kind: fc.constant('signal'), signal: fc.string() }),
  fc.record({ kind: fc.constant('exit'), code: fc.nat(255), error: fc.string() }, { requiredKeys: ['kind', 'code'] }),
  fc.record({ kind: fc.constant('error'), code: fc.constantFrom('not_found', 'internal'), message: fc.string() }),
);

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1))), bytes.length].sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end)).filter((part) => part.length > 0);
}

test('frames are read as they were written, wherever the bytes are cut', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyFrame), fc.array(fc.nat()), async (frames, places) => {
      const bytes = Buffer.concat(frames.map(encodeFrame));
      const read = await Array.fromAsync(readFrames(Readable.from(cut(bytes, places))));
      assert.deepEqual(
        read,
        frames.map((frame) => ({ ...frame })),
      );
    }),
  );
});

test('a stream of single bytes is enough', async () => {
  const frames: Frame[] = [
    { kind: 'stdout', data: Buffer.from('hello') },
    { kind: 'exit', code: 3, error: 'killed' },
  ];
  const bytes = Buffer.concat(frames.map(encodeFrame));
  const read = await Array.fromAsync(readFrames(Readable.from(cut(bytes, [...bytes.keys()]))));
  assert.deepEqual(read, frames);
});

test('a frame over the limit is invalid on both sides, and one at the limit is not', async () => {
  const full = { kind: 'stdin', data: Buffer.alloc(frameLimitBytes) } as const;
  const read = await Array.fromAsync(readFrames(Readable.from([encodeFrame(full)])));
  assert.equal(read.length, 1);
  assert.throws(
    () => encodeFrame({ kind: 'stdin', data: Buffer.alloc(frameLimitBytes + 1) }),
    (error) => hasCode(error, 'invalid'),
  );
  const announced = Buffer.from([0, 0, 0x10, 0, 1]);
  await assert.rejects(Array.fromAsync(readFrames(Readable.from([announced]))), (error) => hasCode(error, 'invalid'));
});

test('a connection that goes silent is given up where the other side sends pings, and waited for where it does not', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const open = (...frames: Frame[]) => {
    const socket = new PassThrough();
    for (const frame of frames) socket.write(encodeFrame(frame));
    return { socket, frames: readFrames(socket) };
  };
  const pinged = open({ kind: 'ping' });
  assert.equal((await pinged.frames.next()).done, false);
  const mute = open({ kind: 'stdin-end' });
  assert.equal((await mute.frames.next()).done, false);
  const [given, waiting] = [pinged.frames.next(), mute.frames.next()];
  t.mock.timers.tick(60_000);
  await assert.rejects(given, (error) => hasCode(error, 'unavailable') && /went silent/.test(error.message));
  assert.ok(pinged.socket.destroyed);
  mute.socket.end();
  assert.equal((await waiting).done, true);
});

test('unknown kinds and malformed payloads are invalid', async () => {
  for (const bytes of [
    [99, 0, 0, 0, 0],
    [4, 0, 0, 0, 1, 0],
    [6, 0, 0, 0, 1, 0x7b],
    [7, 0, 0, 0, 2, 0x7b, 0x7d],
  ]) {
    const reading = Array.fromAsync(readFrames(Readable.from([Buffer.from(bytes)])));
    await assert.rejects(reading, (error) => hasCode(error, 'invalid'));
  }
});

test('a connection that ends inside a frame is unavailable', async () => {
  const bytes = encodeFrame({ kind: 'stdout', data: Buffer.from('hello') }).subarray(0, 7);
  await assert.rejects(Array.fromAsync(readFrames(Readable.from([bytes]))), (error) => hasCode(error, 'unavailable'));
});

test('a reader that stops leaves the socket open for the answer', async () => {
  const socket = new PassThrough();
  socket.write(encodeFrame({ kind: 'stdin-end' }));
  for await (const frame of readFrames(socket)) {
    assert.equal(frame.kind, 'stdin-end');
    break;
  }
  assert.equal(socket.destroyed, false);
});
