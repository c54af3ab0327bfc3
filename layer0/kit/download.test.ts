import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { openDownload } from './download.ts';
import type { OpenFrom } from './download.ts';
import { FlynnError } from './errors.ts';

const data = Buffer.from(Array.from({ length: 1_000 }, (_, index) => index % 251));
const gone = () => new FlynnError('unavailable', 'the connection broke');

/** `count` bytes from there on, then the failure. */
function cut(from: number, count: number, failure: Error = gone()): Readable {
  return Readable.from(
    (async function* () {
      yield data.subarray(from, from + count);
      if (from + count < data.length) throw failure;
    })(),
    { objectMode: false },
  );
}

test('connections that break are followed by others, each from where the one before broke', async () => {
  const asked: number[] = [];
  const open: OpenFrom = async (from) => {
    asked.push(from);
    return cut(from, 300);
  };
  const body = await openDownload(open, { what: 'a download' });
  assert.deepEqual(await buffer(body), data);
  assert.deepEqual(asked, [0, 300, 600, 900]);
});

test('one that cannot be opened fails at once, one that cannot be gone on with is tried again', async () => {
  await assert.rejects(
    openDownload(() => Promise.reject(gone()), { what: 'a download' }),
    { code: 'unavailable' },
  );
  let opened = 0;
  const open: OpenFrom = async (from) => {
    opened += 1;
    if (opened === 2 || opened === 3) throw gone();
    return cut(from, 600);
  };
  assert.deepEqual(await buffer(await openDownload(open, { what: 'a download' })), data);
  assert.equal(opened, 4);
});

test('what is gone for good or wrong in itself is told', async () => {
  const removed: OpenFrom = async (from) => {
    if (from > 0) throw new FlynnError('not_found', 'it was removed');
    return cut(0, 10);
  };
  await assert.rejects(buffer(await openDownload(removed, { what: 'a download' })), { code: 'not_found' });
  const wrong: OpenFrom = async (from) => cut(from, 10, new FlynnError('invalid', 'it is wrong'));
  await assert.rejects(buffer(await openDownload(wrong, { what: 'a download' })), { code: 'invalid' });
});

test('connections that bring nothing come to an end', async () => {
  let opened = 0;
  const open: OpenFrom = async (from) => {
    opened += 1;
    return from === 0 ? cut(0, 10) : Readable.from(failing());
  };
  async function* failing(): AsyncGenerator<Buffer> {
    await Promise.reject(gone());
    yield Buffer.alloc(0);
  }
  const ended = buffer(await openDownload(open, { what: 'a download', pauseMs: 1 }));
  await assert.rejects(ended, {
    code: 'unavailable',
    message: /a download broke 9 times in a row after 10 bytes: .*broke/,
  });
  assert.equal(opened, 9);
});

test('a connection that goes silent is given up for another', async () => {
  let opened = 0;
  const open: OpenFrom = async (from) => {
    opened += 1;
    return opened === 1 ? new Readable({ read: () => undefined }) : cut(from, 1_000);
  };
  assert.deepEqual(await buffer(await openDownload(open, { what: 'a download', silenceMs: 20 })), data);
});

test('who leaves, or is told to, holds no connection', async () => {
  const bodies: Readable[] = [];
  const open: OpenFrom = async () => {
    const body = new Readable({ read: () => undefined });
    bodies.push(body);
    return body;
  };
  const left = await openDownload(open, { what: 'a download' });
  left.destroy();
  assert.ok(bodies[0]?.destroyed);
  const ending = new AbortController();
  const reading = buffer(await openDownload(open, { what: 'a download', signal: ending.signal }));
  ending.abort(new FlynnError('cancelled', 'never mind'));
  await assert.rejects(reading, { message: 'never mind' });
  assert.ok(bodies[1]?.destroyed);
  const late = await openDownload(open, { what: 'a download', signal: ending.signal });
  await assert.rejects(buffer(late), { message: 'never mind' });
});
