import assert from 'node:assert/strict';
import { PassThrough, Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { FlynnError, hasCode } from './errors.ts';
import { waitFor } from './retry.ts';
import { nextChunk, untilSilent } from './silence.ts';

test('the bytes of a source that goes on come through, and its failure with them', async () => {
  const whole = untilSilent(Readable.from([Buffer.from('a'), Buffer.from('b')]), { what: 'a source' });
  assert.equal(String(await buffer(whole)), 'ab');
  const broken = new PassThrough();
  const read = buffer(untilSilent(broken, { what: 'a source' }));
  broken.write('a');
  broken.destroy(new FlynnError('unavailable', 'the connection broke'));
  await assert.rejects(read, (error) => hasCode(error, 'unavailable'));
});

test('one that goes silent fails, and is let go', async () => {
  const source = new PassThrough();
  source.write('a');
  const read = buffer(untilSilent(source, { what: 'the source', silenceMs: 20 }));
  await assert.rejects(read, (error) => hasCode(error, 'timeout') && /the source went silent/.test(error.message));
  assert.equal(source.destroyed, true);
});

test('who takes long to read is not the silence of who sends, and lets go of the source by leaving', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const source = new PassThrough();
  const silent = untilSilent(source, { what: 'the source', silenceMs: 50 });
  // More than both keep: nothing is asked of the source until it is read.
  for (let at = 0; at < 40; at += 1) source.write(Buffer.alloc(16 * 1024));
  silent.read(1);
  while (silent.readableLength < silent.readableHighWaterMark) await turn();
  t.mock.timers.tick(150);
  await turn();
  assert.equal(silent.destroyed, false);
  t.mock.timers.reset();
  silent.destroy();
  await waitFor(() => source.destroyed, { what: 'the source to be let go', deadlineMs: 60_000, intervalMs: 1 });
});

test('what came while everything stood still is read before anybody is called silent', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const source = new PassThrough();
  const chunks: AsyncIterator<Buffer> = source.iterator();
  const next = nextChunk(source, chunks, { what: 'the source', silenceMs: 50 });
  // In one turn: the timer is long due, and its bytes are there behind it.
  t.mock.timers.tick(500);
  source.write('a');
  assert.equal(String((await next).value), 'a');
  await turn();
  assert.equal(source.destroyed, false);
  source.destroy();
});
