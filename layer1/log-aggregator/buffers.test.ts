import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { Line } from './api.ts';
import { LogBuffers } from './buffers.ts';
import type { LineReader } from './reader.ts';
import { LineWindow, sizeOf } from './window.ts';

function line(at: number, changes: Partial<Line> = {}): Line {
  const timestamp = `2030-01-01T00:00:00.${String(at).padStart(9, '0')}Z`;
  return { jobId: 'j1', hostId: 'h1', processType: 'web', stream: 'stdout', timestamp, message: `m${at}`, ...changes };
}

async function messages(reader: LineReader): Promise<string[]> {
  const found: string[] = [];
  for await (const batch of reader.batches()) found.push(...batch.map((each) => each.message));
  return found;
}

const all = { filter: {}, follow: false };

describe('a window', () => {
  test('puts lines in the order of their timestamps, whatever the order they came in, and each only once', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ at: fc.nat(20), job: fc.constantFrom('a', 'b') })), (given) => {
        const window = new LineWindow({ lines: 1000, bytes: 1e6 });
        for (const { at, job } of given) window.add(line(at, { jobId: job }));
        const times = window.lines.map((each) => each.timestamp);
        assert.deepEqual(times, times.toSorted());
        const distinct = new Set(given.map(({ at, job }) => `${at} ${job}`));
        assert.equal(window.lines.length, distinct.size);
      }),
    );
  });

  test('never holds more than its limits and counts its bytes exactly', () => {
    fc.assert(
      fc.property(fc.array(fc.record({ at: fc.nat(1000), length: fc.nat(300) }), { maxLength: 200 }), (given) => {
        const window = new LineWindow({ lines: 30, bytes: 12_000 });
        for (const { at, length } of given) {
          window.add(line(at, { message: 'x'.repeat(length) }));
          assert.ok(window.lines.length <= 30 && window.bytes <= 12_000);
          assert.equal(
            window.bytes,
            window.lines.reduce((sum, each) => sum + sizeOf(each), 0),
          );
        }
      }),
    );
  });

  test('does not let lines back in that it had to let go', () => {
    const window = new LineWindow({ lines: 3, bytes: 1e6 });
    for (const at of [1, 2, 3, 4, 5]) window.add(line(at));
    for (const at of [1, 2, 3, 4, 5]) assert.equal(window.add(line(at)), false);
    assert.deepEqual(
      window.lines.map((each) => each.message),
      ['m3', 'm4', 'm5'],
    );
  });

  test('orders timestamps of different precision', () => {
    const window = new LineWindow({ lines: 10, bytes: 1e6 });
    for (const timestamp of [
      '2030-01-01T00:00:00.5Z',
      '2030-01-01T00:00:00.123456789Z',
      '2030-01-01T00:00:00.123Z',
      '2030-01-01T00:00:00Z',
    ]) {
      window.add(line(0, { timestamp }));
    }
    assert.deepEqual(
      window.lines.map((each) => each.timestamp.slice(19)),
      ['Z', '.123Z', '.123456789Z', '.5Z'],
    );
  });

  test('takes a line larger than itself without holding it', () => {
    const window = new LineWindow({ lines: 10, bytes: 1000 });
    window.add(line(1, { message: 'x'.repeat(5000) }));
    assert.equal(window.bytes, 0);
    window.add(line(2));
    assert.equal(window.lines.length, 1);
  });
});

describe('the buffers', () => {
  test('keep apps apart and filter by job, type and stream', async () => {
    const buffers = new LogBuffers();
    buffers.add('a', line(1));
    buffers.add('a', line(2, { jobId: 'j2', processType: 'worker' }));
    buffers.add('a', line(3, { stream: 'stderr' }));
    buffers.add('b', line(4));
    assert.deepEqual(await messages(buffers.open('a', all)), ['m1', 'm2', 'm3']);
    assert.deepEqual(await messages(buffers.open('a', { ...all, lines: 2 })), ['m2', 'm3']);
    assert.deepEqual(await messages(buffers.open('a', { ...all, lines: 0 })), []);
    assert.deepEqual(await messages(buffers.open('a', { ...all, filter: { jobId: 'j2' } })), ['m2']);
    assert.deepEqual(await messages(buffers.open('a', { ...all, filter: { processType: 'web' }, lines: 1 })), ['m3']);
    assert.deepEqual(await messages(buffers.open('a', { ...all, filter: { streams: new Set(['stderr']) } })), ['m3']);
    assert.deepEqual(await messages(buffers.open('c', all)), []);
  });

  test('a follower gets what was there, then what comes', async () => {
    const buffers = new LogBuffers();
    buffers.add('a', line(1));
    const reader = buffers.open('a', { filter: {}, follow: true });
    const read = messages(reader);
    await new Promise((resolve) => setImmediate(resolve));
    buffers.add('a', line(2));
    buffers.add('a', line(2));
    await new Promise((resolve) => setImmediate(resolve));
    buffers.close('a', reader);
    buffers.add('a', line(3));
    assert.deepEqual(await read, ['m1', 'm2']);
    assert.equal(buffers.stats.readers, 0);
  });

  test('a reader that does not read costs one window, and is told what it missed', async () => {
    const buffers = new LogBuffers({ window: { lines: 100, bytes: 1e6 } });
    const reader = buffers.open('a', { filter: {}, follow: true });
    for (let at = 0; at < 1000; at += 1) buffers.add('a', line(at));
    buffers.close('a', reader);
    const got = await messages(reader);
    assert.ok(got.length <= 101);
    const [notice, ...rest] = got;
    assert.equal(notice, `${1000 - rest.length} lines were left out here: this reader is slower than the app writes`);
    assert.equal(rest.at(-1), 'm999');
  });

  test('the app used least recently loses its lines when memory runs out, and the sum stays bounded', async () => {
    const totalBytes = 40_000;
    const buffers = new LogBuffers({ window: { lines: 100, bytes: 10_000 }, totalBytes });
    for (const app of ['a', 'b', 'c']) buffers.add(app, line(1));
    assert.deepEqual(await messages(buffers.open('a', all)), ['m1']);
    for (let i = 0; buffers.stats.apps === i + 3; i += 1) buffers.add(`x${i}`, line(1, { message: 'x'.repeat(2_000) }));
    assert.deepEqual(await messages(buffers.open('b', all)), []);
    assert.deepEqual(await messages(buffers.open('a', all)), ['m1']);
    for (let i = 0; i < 500; i += 1) {
      buffers.add(`y${i % 50}`, line(i, { message: 'y'.repeat(i) }));
      assert.ok(buffers.stats.bytes <= totalBytes);
    }
  });
});
