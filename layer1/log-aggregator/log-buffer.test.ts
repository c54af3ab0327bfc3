import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { LogBuffer } from './log-buffer.ts';
import type { Batch, LogReader } from './log-buffer.ts';

function bufferOf(entries: number, bytes = Infinity): LogBuffer<number> {
  return new LogBuffer<number>({ sizeOf: () => 1, limits: { entries, bytes } });
}

function numbers(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, index) => from + index);
}

/** Whether it is still waiting once everything that could happen has happened. */
async function isWaiting(reading: Promise<unknown>): Promise<boolean> {
  const turn = new Promise((resolve) => setImmediate(resolve, 'waiting'));
  return (await Promise.race([reading.then(() => 'done'), turn])) === 'waiting';
}

function all(reader: LogReader<number>): { entries: number[]; skipped: number } {
  const entries: number[] = [];
  let skipped = 0;
  for (;;) {
    const batch = reader.read(100);
    if (batch.entries.length === 0 && batch.skipped === 0) return { entries, skipped };
    entries.push(...batch.entries);
    skipped += batch.skipped;
  }
}

describe('a reader', () => {
  test('gets what is there, waits for more, and is woken by a write', async () => {
    const buffer = bufferOf(10);
    buffer.write(numbers(3));
    const reader = buffer.open();
    assert.deepEqual(await reader.next(10), { entries: [0, 1, 2], skipped: 0 });
    assert.deepEqual(reader.read(10), { entries: [], skipped: 0 });
    const next = reader.next(10);
    assert.ok(await isWaiting(next));
    buffer.write([3]);
    assert.deepEqual((await next)?.entries, [3]);
  });

  test('takes at most what it asks for, and the rest the next time', async () => {
    const buffer = bufferOf(10);
    buffer.write(numbers(3));
    const reader = buffer.open();
    assert.deepEqual((await reader.next(2))?.entries, [0, 1]);
    assert.deepEqual((await reader.next(2))?.entries, [2]);
  });

  test('that was in a window when it was let go reads it to its end, goes on at the newest and hears what it missed', () => {
    const buffer = bufferOf(2);
    const reader = buffer.open();
    buffer.write(numbers(53));
    assert.deepEqual(reader.read(10), { entries: [0, 1], skipped: 0 });
    assert.deepEqual(reader.read(10), { entries: [52], skipped: 50 });
  });

  test('that comes after many writes sees the newest', () => {
    const buffer = bufferOf(4);
    buffer.write(numbers(53));
    assert.equal(all(buffer.open()).entries.at(-1), 52);
  });

  test('without history waits for what comes', async () => {
    const buffer = bufferOf(10);
    buffer.write(numbers(5));
    const next = buffer.open({ history: 0 }).next(10);
    assert.ok(await isWaiting(next));
    buffer.write([5]);
    assert.deepEqual((await next)?.entries, [5]);
  });

  test('with a history of two of five gets exactly two, then waits', async () => {
    const buffer = bufferOf(10);
    buffer.write(numbers(5));
    const reader = buffer.open({ history: 2 });
    assert.deepEqual((await reader.next(10))?.entries, [3, 4]);
    const next = reader.next(10);
    assert.ok(await isWaiting(next));
    reader.cancel();
    assert.equal(await next, undefined);
  });

  test('that was there before the writes gets all of them, whatever history it asked for', () => {
    const buffer = bufferOf(10);
    const reader = buffer.open({ history: 2 });
    buffer.write(numbers(5));
    assert.deepEqual(all(reader).entries, numbers(5));
  });

  test('with a history of nine of a window of twelve gets exactly those', () => {
    const buffer = bufferOf(12);
    buffer.write(numbers(23));
    assert.deepEqual(all(buffer.open({ history: 9 })).entries, numbers(9, 14));
  });

  test('that is cancelled, or whose signal aborts, ends at once', async () => {
    const buffer = bufferOf(10);
    const reader = buffer.open();
    const waiting = reader.next(10);
    reader.cancel();
    assert.equal(await waiting, undefined);
    buffer.write([1]);
    assert.equal(await reader.next(10), undefined);
    const leaving = new AbortController();
    const other = buffer.open({ history: 0 });
    const next = other.next(10, { signal: leaving.signal });
    leaving.abort();
    assert.equal(await next, undefined);
    assert.deepEqual((await buffer.open().next(10))?.entries, [1]);
  });

  test('gets an empty batch when nudged', async () => {
    const reader = bufferOf(10).open();
    const next = reader.next(10);
    reader.nudge();
    assert.deepEqual(await next, { entries: [], skipped: 0 });
  });
});

describe('a buffer', () => {
  test('that is closed wakes who waits, lets readers finish, and takes nothing more', async () => {
    const buffer = bufferOf(10);
    const waiting = buffer.open().next(10);
    buffer.close();
    buffer.close();
    assert.equal(await waiting, undefined);
    const written = bufferOf(10);
    const reader = written.open();
    written.write([1]);
    written.close();
    written.write([2]);
    assert.deepEqual((await reader.next(10))?.entries, [1]);
    assert.equal(await reader.next(10), undefined);
  });

  test('lets a window go when its bytes are full, too', () => {
    const buffer = bufferOf(1_000, 3);
    buffer.write(numbers(7));
    assert.deepEqual(all(buffer.open()).entries, [6]);
  });

  test('tells every reader each entry once and in order, or that it was skipped, and no reader holds more than a window', () => {
    const step = fc.record({ write: fc.nat(9), readers: fc.array(fc.record({ who: fc.nat(3), max: fc.nat(7) })) });
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 8 }), fc.array(step, { maxLength: 40 }), (size, steps) => {
        const buffer = bufferOf(size);
        const readers = numbers(4).map(() => ({ reader: buffer.open(), next: 0 }));
        let written = 0;
        const check = (each: { reader: LogReader<number>; next: number }, batch: Batch<number>) => {
          each.next += batch.skipped;
          assert.deepEqual(batch.entries, numbers(batch.entries.length, each.next));
          each.next += batch.entries.length;
          // It can be behind by what it holds, and that is one window.
          assert.ok(batch.entries.length <= size);
        };
        for (const { write, readers: turns } of steps) {
          buffer.write(numbers(write, written));
          written += write;
          for (const { who, max } of turns) {
            const each = readers[who];
            if (each !== undefined) check(each, each.reader.read(max));
          }
        }
        for (const each of readers) {
          for (let batch = each.reader.read(100); batch.entries.length + batch.skipped > 0;) {
            check(each, batch);
            batch = each.reader.read(100);
          }
          assert.equal(each.next, written);
        }
      }),
    );
  });
});
