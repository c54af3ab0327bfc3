import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import { OperationLog, closeLog, planAppend } from './log.ts';

const empty = { lines: 0, bytes: 0, isFull: false };

test('lines that are there already are not added twice; missing ones are refused with where to go on', () => {
  const { head } = planAppend(empty, 0, ['a', 'b']);
  assert.equal(head.lines, 2);
  assert.deepEqual(planAppend(head, 1, ['b', 'c']).chunks, [{ line: 2, lines: ['c'] }]);
  assert.deepEqual(planAppend(head, 0, ['a', 'b']).chunks, []);
  assert.throws(
    () => planAppend(head, 5, ['x']),
    (error) => hasCode(error, 'conflict') && error.detail['lines'] === 2,
  );
});

test('a log that is too long ends in one notice, and line numbers go on', () => {
  const line = 'x'.repeat(9_000);
  let head = empty;
  const texts: string[] = [];
  for (let round = 0; round < 6; round += 1) {
    const next = planAppend(
      head,
      head.lines,
      Array.from({ length: 100 }, () => line),
    );
    texts.push(...next.chunks.flatMap((chunk) => chunk.lines));
    for (const chunk of next.chunks) assert.ok(JSON.stringify(chunk.lines).length < 300_000);
    head = next.head;
  }
  assert.equal(head.lines, 600);
  assert.equal(texts.filter((text) => text.includes('left out')).length, 1);
  assert.match(texts.at(-1) ?? '', /left out/);
  assert.ok(texts.length < 500);
});

test('a log takes no more of the store than it may, whatever its lines are of', () => {
  const maxBytes = 4 * 1024 ** 2;
  for (const line of ['\u0007'.repeat(9_000), '', '\u001b[32mok\u001b[0m', 'x'.repeat(100), '\ud800"ä€'.repeat(900)]) {
    let [head, stored] = [empty, 0];
    while (!head.isFull) {
      const lines = Array.from({ length: Math.ceil(200_000 / (line.length + 1)) }, () => line);
      const { chunks, ...next } = planAppend(head, head.lines, lines);
      for (const chunk of chunks) {
        const bytes = Buffer.byteLength(JSON.stringify(chunk.lines));
        assert.ok(bytes <= 256 * 1024 + 2, `a chunk of ${bytes} bytes`);
        stored += bytes;
      }
      ({ head } = next);
    }
    assert.ok(stored < 1.01 * maxBytes && stored > 0.95 * maxBytes, `${JSON.stringify(line.slice(0, 9))}: ${stored}`);
  }
});

test('a reader gets every line once, also those written while it reads, and ends with the operation', async () => {
  const store = createMemoryStore();
  const log = new OperationLog(store);
  await log.append('op', 0, ['one', 'two']);
  const { signal } = new AbortController();
  const seen: string[] = [];
  const reading = (async () => {
    for await (const { line, text } of log.read('op', { from: 0, signal })) seen.push(`${line} ${text}`);
  })();
  await log.append('op', 2, ['three']);
  await log.append('op', 1, ['two', 'three', 'four']);
  await store.transact({ then: [closeLog('op')] });
  await reading;
  assert.deepEqual(seen, ['0 one', '1 two', '2 three', '3 four']);
  const rest: string[] = [];
  for await (const { text } of log.read('op', { from: 3, signal })) rest.push(text);
  assert.deepEqual(rest, ['four']);
  await assert.rejects(log.append('op', 4, ['late']), /has ended/);
  await store.close();
});

test('two writers of the same lines leave them there once', async () => {
  const store = createMemoryStore();
  const log = new OperationLog(store);
  await Promise.all([log.append('op', 0, ['a', 'b']), log.append('op', 0, ['a', 'b']), log.append('op', 0, ['a'])]);
  await store.transact({ then: [closeLog('op')] });
  const seen: string[] = [];
  for await (const { text } of log.read('op', { from: 0, signal: new AbortController().signal })) seen.push(text);
  assert.deepEqual(seen, ['a', 'b']);
  await store.close();
});
