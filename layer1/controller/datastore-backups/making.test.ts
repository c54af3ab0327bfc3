/** How long making a backup may take: as long as it gets on, and then what the blob store needs for so many bytes. */
import assert from 'node:assert/strict';
import { duplexPair } from 'node:stream';
import type { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
import { createHash } from 'node:crypto';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { fakeClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { encodeFrame } from '@flynn/kit/frames';
import { makeDump } from './making.ts';
import { newSecret } from './sealing.ts';

const mebibyte = 1024 ** 2;
const minuteMs = 60_000;
const quietMs = 10 * minuteMs;

/** A program beside a member, a blob store that answers when it is told, and time that passes when it is told. */
function begin(t: TestContext, onProgress: (bytes: number) => Promise<void> = async () => undefined) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const clock = fakeClock();
  const [ours, theirs] = duplexPair();
  theirs.resume();
  const taken = Promise.withResolvers<void>();
  const answering = Promise.withResolvers<void>();
  const put = async (body: Readable | Uint8Array | string, { signal }: { signal?: AbortSignal } = {}) => {
    const hash = createHash('sha256');
    let sizeBytes = 0;
    assert.ok(typeof body === 'object');
    for await (const chunk of body as Readable) {
      hash.update(chunk);
      sizeBytes += chunk.length;
    }
    taken.resolve();
    signal?.addEventListener('abort', () => answering.reject(signal.reason));
    await answering.promise;
    return { digest: `sha256:${hash.digest('hex')}`, sizeBytes };
  };
  const told: number[] = [];
  const { signal } = new AbortController();
  const making = makeDump(
    { exec: async () => ours },
    { put },
    { member: { hostId: 'h', jobId: 'j' }, command: ['client', 'dump'], secret: newSecret() },
    {
      signal,
      clock,
      async onProgress(bytes) {
        told.push(bytes);
        await onProgress(bytes);
      },
    },
  );
  // It is looked at by its test later.
  making.catch(() => undefined);
  return { program: theirs, clock, taken: taken.promise, answer: answering.resolve, told, making };
}

/** In steps as long as the host's pings are apart, at each of which something is said. */
async function pass(
  t: TestContext,
  { program, clock }: Pick<ReturnType<typeof begin>, 'program' | 'clock'>,
  ms: number,
  say: 'stderr' | 'ping',
): Promise<void> {
  for (let passedMs = 0; passedMs < ms; passedMs += 15_000) {
    t.mock.timers.tick(15_000);
    await clock.advance(15_000);
    if (!program.writableEnded) {
      program.write(encodeFrame(say === 'ping' ? { kind: 'ping' } : { kind: 'stderr', data: Buffer.from('\r') }));
    }
    for (let turn = 0; turn < 5; turn += 1) await setImmediate();
  }
}

test('a blob store that has all of it has a second for each MiB to copy it, and is told of meanwhile', async (t) => {
  const at = begin(t);
  const { program, taken, answer, told, making } = at;
  const data = Buffer.alloc(mebibyte);
  for (let count = 0; count < 120; count += 1) {
    program.write(encodeFrame({ kind: 'stdout', data }));
    await setImmediate();
  }
  program.end(encodeFrame({ kind: 'exit', code: 0 }));
  await taken;
  await pass(t, at, quietMs + 105_000, 'ping');
  assert.ok(
    told.length >= 47 && told.every((bytes) => bytes === 120 * mebibyte),
    'whoever waits knows that it goes on',
  );
  answer();
  assert.equal((await making).dumpBytes, 120 * mebibyte);
});

test('a blob store that does not answer by then is given up', async (t) => {
  const at = begin(t);
  const { program, taken, making } = at;
  program.write(encodeFrame({ kind: 'stdout', data: Buffer.alloc(mebibyte) }));
  program.end(encodeFrame({ kind: 'exit', code: 0 }));
  await taken;
  await pass(t, at, quietMs + 15_000, 'ping');
  await assert.rejects(making, { code: 'timeout', message: 'the backup did not get on for 601 s' });
});

test('a program that prepares its dump gets on as long as it says so; one that only its host speaks for does not', async (t) => {
  const at = begin(t);
  const { program, answer, making } = at;
  await pass(t, at, 59 * minuteMs, 'stderr');
  program.write(encodeFrame({ kind: 'stdout', data: Buffer.from('all there is') }));
  program.end(encodeFrame({ kind: 'exit', code: 0 }));
  answer();
  assert.equal((await making).dumpBytes, 12);
  t.mock.timers.reset();
  const silent = begin(t);
  await pass(t, silent, quietMs, 'ping');
  await assert.rejects(silent.making, { code: 'timeout' });
});

test('nothing of it goes on when its record is gone', async (t) => {
  const gone = new FlynnError('not_found', 'there is no such record');
  const at = begin(t, () => Promise.reject(gone));
  await pass(t, at, 15_000, 'ping');
  await assert.rejects(at.making, gone);
  assert.ok(at.program.destroyed || at.program.readableEnded, 'its program is left');
});
