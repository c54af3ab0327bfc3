import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from './errors.ts';
import { AsyncQueue, KeyedMutex, Mutex } from './queue.ts';

test('values come out in the order they went in, before and while being read, until the end', async () => {
  const queue = new AsyncQueue<number | undefined>();
  queue.push(1);
  queue.push(undefined);
  assert.equal(queue.size, 2);
  const reading = Array.fromAsync(queue);
  await new Promise((resolve) => setImmediate(resolve));
  queue.push(3);
  queue.end();
  queue.push(4);
  assert.deepEqual(await reading, [1, undefined, 3]);
});

test('a queue that ends with an error gives what it holds first', async () => {
  const queue = new AsyncQueue<number>();
  queue.push(1);
  queue.end(new Error('broken'));
  const iterator = queue[Symbol.asyncIterator]();
  assert.deepEqual(await iterator.next(), { value: 1, done: false });
  await assert.rejects(iterator.next(), /broken/);
  assert.equal((await iterator.next()).done, true);
});

test('a bounded queue ends as exhausted, or forgets the oldest', async () => {
  const strict = new AsyncQueue<number>({ limit: 2 });
  for (const value of [1, 2, 3]) strict.push(value);
  await assert.rejects(Array.fromAsync(strict), (error) => hasCode(error, 'exhausted'));
  const lossy = new AsyncQueue<number>({ limit: 2, onOverflow: 'drop-oldest' });
  for (const value of [1, 2, 3]) lossy.push(value);
  lossy.end();
  assert.deepEqual(await Array.fromAsync(lossy), [2, 3]);
});

test('a reader that stops ends the queue', async () => {
  const queue = new AsyncQueue<number>();
  queue.push(1);
  queue.push(2);
  for await (const value of queue) {
    assert.equal(value, 1);
    break;
  }
  assert.equal(queue.isEnded, true);
  queue.push(3);
  assert.equal(queue.size, 0);
});

test('a mutex runs one at a time, in order, and goes on after a failure', async () => {
  const mutex = new Mutex();
  const seen: string[] = [];
  const work = (name: string) => async () => {
    seen.push(`${name} begins`);
    await new Promise((resolve) => setImmediate(resolve));
    seen.push(`${name} ends`);
    if (name === 'a') throw new Error('a failed');
    return name;
  };
  const [a, b] = await Promise.allSettled([mutex.run(work('a')), mutex.run(work('b'))]);
  assert.equal(a.status, 'rejected');
  assert.deepEqual(b, { status: 'fulfilled', value: 'b' });
  assert.deepEqual(seen, ['a begins', 'a ends', 'b begins', 'b ends']);
});

test('a keyed mutex keeps apart only what has the same key, and forgets keys that are free', async () => {
  const mutex = new KeyedMutex();
  const first = Promise.withResolvers<void>();
  const seen: string[] = [];
  const held = mutex.run('x', () => first.promise);
  const waiting = mutex.run('x', async () => void seen.push('x'));
  await mutex.run('y', async () => void seen.push('y'));
  assert.deepEqual(seen, ['y']);
  first.resolve();
  await Promise.all([held, waiting]);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(seen, ['y', 'x']);
  assert.equal(mutex.size, 0);
});

test('who gives up waiting for a key never runs, and does not hold up the next', async () => {
  const mutex = new KeyedMutex();
  const first = Promise.withResolvers<void>();
  const held = mutex.run('x', () => first.promise);
  const leaving = new AbortController();
  const left = mutex.run('x', async () => assert.fail('it ran'), { signal: leaving.signal });
  const next = mutex.run('x', async () => 'next', { signal: new AbortController().signal });
  leaving.abort();
  await assert.rejects(left, (error) => hasCode(error, 'cancelled'));
  first.resolve();
  await held;
  assert.equal(await next, 'next');
});

test('a signal that aborts while the function runs leaves it its result', async () => {
  const mutex = new KeyedMutex();
  const leaving = new AbortController();
  const answer = await mutex.run(
    'x',
    async () => {
      leaving.abort();
      await new Promise((resolve) => setImmediate(resolve));
      return 'done';
    },
    { signal: leaving.signal },
  );
  assert.equal(answer, 'done');
});
