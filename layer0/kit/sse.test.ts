import assert from 'node:assert/strict';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import * as fc from 'fast-check';
import { FlynnError, hasCode } from './errors.ts';
import type { ServerEvent } from './routes.ts';
import { encodeEvent, encodeFailure, heartbeat, readEvents, remoteError, untilSilent } from './sse.ts';

const word = fc.string({ minLength: 1, unit: fc.constantFrom('a', 'ü', '7', '-') });
const anyEvent: fc.Arbitrary<ServerEvent> = fc.record(
  { id: word, event: word, data: fc.jsonValue() },
  { requiredKeys: ['event', 'data'] },
);

function cut(bytes: Uint8Array, places: readonly number[]): Uint8Array[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1))), bytes.length].sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

async function* stream(chunks: Iterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  yield* chunks;
}

test('events are read as they were written, wherever the bytes are cut, with heartbeats between them', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(anyEvent), fc.array(fc.nat()), async (events, places) => {
      const bytes = Buffer.from(events.map((event) => heartbeat + encodeEvent(event)).join(''));
      const read = await Array.fromAsync(readEvents(stream(cut(bytes, places))));
      assert.deepEqual(
        JSON.stringify(read.map((e) => [e.id, e.event, e.data])),
        JSON.stringify(events.map((e) => [e.id, e.event, e.data])),
      );
    }),
  );
});

test('an event cannot be smuggled in through an id or a name', async () => {
  const bytes = Buffer.from(encodeEvent({ id: '1\n\nevent: x', event: 'a\r\ndata: 2', data: 1 }));
  const read = await Array.fromAsync(readEvents(stream([bytes])));
  assert.equal(read.length, 1);
  assert.equal(read[0]?.data, 1);
});

test('a failure that was sent is thrown at the reader with its code', async () => {
  const bytes = Buffer.from(encodeFailure(new FlynnError('exhausted', 'too slow', { detail: { limit: 1 } })));
  await assert.rejects(Array.fromAsync(readEvents(stream([bytes]))), (error) => {
    assert.ok(hasCode(error, 'exhausted'));
    assert.deepEqual(error.detail, { limit: 1 });
    return true;
  });
});

test('data that is not JSON is an error, not an event', async () => {
  const bytes = Buffer.from('event: x\ndata: {oops\n\n');
  await assert.rejects(Array.fromAsync(readEvents(stream([bytes]))), (error) => hasCode(error, 'internal'));
});

test('only a body with a known code and a message is an error of ours', () => {
  assert.equal(remoteError({ code: 'denied', message: 'no' })?.code, 'denied');
  assert.equal(remoteError({ code: 'teapot', message: 'no' }), undefined);
  assert.equal(remoteError({ code: 'denied' }), undefined);
  assert.equal(remoteError('denied'), undefined);
});

test('a body that falls silent fails with the given code, and one that keeps talking does not', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const body = new PassThrough();
  const chunks = untilSilent(body, { what: 'the body', silenceMs: 400, code: 'unavailable' });
  for (let beat = 0; beat < 30; beat += 1) {
    const next = chunks.next();
    t.mock.timers.tick(300);
    body.write('x');
    assert.equal(String((await next).value), 'x');
  }
  const silent = assert.rejects(chunks.next(), { code: 'unavailable', message: 'the body went silent' });
  t.mock.timers.tick(400);
  await silent;
  assert.equal(body.destroyed, true);
});

test('a body is not silent for the time that its reader takes', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const body = new PassThrough();
  const chunks = untilSilent(body, { what: 'the body', silenceMs: 400 });
  body.write('x');
  assert.equal(String((await chunks.next()).value), 'x');
  t.mock.timers.tick(4_000);
  await turn();
  body.write('y');
  assert.equal(String((await chunks.next()).value), 'y');
  await chunks.return(undefined);
  assert.equal(body.destroyed, true);
});
