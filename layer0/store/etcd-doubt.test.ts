import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { setImmediate as settle } from 'node:timers/promises';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { unlessLost } from './etcd-doubt.ts';
import type { Doubt } from './etcd-doubt.ts';

const afterMs = 1_000;
const againMs = 250;

/** A write that was sent now; it says when it ended and how, of a clock that goes on only by `until`. */
function sent(t: TestContext, { answerAtMs = Infinity, ...doubt }: Partial<Doubt> & { answerAtMs?: number }) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  let nowMs = 0;
  const wait = (ms: number): Promise<void> => new Promise((resolve) => void setTimeout(resolve, ms));
  const answer = Number.isFinite(answerAtMs)
    ? wait(answerAtMs).then(() => 'done')
    : new Promise<string>(() => undefined);
  const looks: number[] = [];
  const clock = { sleep: wait };
  const defaults = {
    what: 'a transaction',
    sentTerm: 3,
    isHanging: () => false,
    signal: t.signal,
    clock,
    afterMs,
    againMs,
  };
  const term = doubt.term ?? (async () => 3);
  let ended: { atMs: number; how: unknown } | undefined;
  const end = (how: unknown) => (ended = { atMs: nowMs, how });
  unlessLost(answer, {
    ...defaults,
    ...doubt,
    term: () => {
      looks.push(nowMs);
      return term();
    },
  }).then(end, end);
  const until = async (ms: number) => {
    for (; nowMs < ms; nowMs += 10) {
      await settle();
      t.mock.timers.tick(10);
      await settle();
    }
    return ended;
  };
  return { until, wait, looks, now: () => nowMs };
}

const isTimeout = (how: unknown, pattern: RegExp) =>
  hasCode(how, 'timeout') && how instanceof Error && pattern.test(how.message);

test('a write that is answered soon is not doubted', async (t) => {
  const { until, looks } = sent(t, { answerAtMs: 990 });
  assert.equal((await until(5_000))?.how, 'done');
  assert.deepEqual(looks, []);
});

test('one whose leader went ends as soon as another leads', async (t) => {
  const electedMs = 1_800;
  // Who is asked before waits for the leader.
  const write = sent(t, { term: () => write.wait(electedMs - write.now()).then(() => 4) });
  const ended = await write.until(5_000);
  assert.ok(isTimeout(ended?.how, /another member leads since/), String(ended?.how));
  assert.ok((ended?.atMs ?? 0) <= electedMs + 300, `it ended after ${ended?.atMs} ms`);
});

test('one whose member hangs ends too', async (t) => {
  const write = sent(t, { isHanging: () => write.now() >= 1_500 });
  const ended = await write.until(5_000);
  assert.ok(isTimeout(ended?.how, /its member does not answer/), String(ended?.how));
  assert.ok((ended?.atMs ?? 0) <= 2_050, `it ended after ${ended?.atMs} ms`);
});

test('a slow one is waited for while the same member leads, however often it is looked', async (t) => {
  const { until, looks } = sent(t, { answerAtMs: 4_500 });
  assert.equal((await until(5_000))?.how, 'done');
  assert.ok(looks.length > 10, `${looks.length} looks`);
});

test('what another leader knows of it is told: that is the answer', async (t) => {
  const { until } = sent(t, { answerAtMs: 1_200, term: async () => 4 });
  assert.equal((await until(5_000))?.how, 'done');
});

test('where nobody knew who led, the first look says so, and elections after it count', async (t) => {
  const known = sent(t, { sentTerm: undefined });
  assert.equal(await known.until(10_000), undefined);
  t.mock.timers.reset();
  const write = sent(t, { sentTerm: undefined, term: async () => (write.now() < 2_000 ? 8 : 9) });
  const ended = await write.until(5_000);
  assert.ok(isTimeout(ended?.how, /another member leads since/), String(ended?.how));
});

test('while nobody tells who leads, it goes on', async (t) => {
  const term = async () => {
    throw new FlynnError('unavailable', 'no leader');
  };
  const { until, looks } = sent(t, { answerAtMs: 3_000, term });
  assert.equal((await until(5_000))?.how, 'done');
  assert.ok(looks.length > 5);
});

test('a bug in asking who leads reaches whoever waits for the write', async (t) => {
  const bug = new TypeError('term is not a function');
  const term = async () => {
    throw bug;
  };
  const ended = await sent(t, { term }).until(5_000);
  assert.equal(ended?.how, bug);
});

test('nobody looks for a write of a client that was closed', async (t) => {
  const closing = new AbortController();
  const { until, looks } = sent(t, { signal: closing.signal });
  await until(1_500);
  const before = looks.length;
  closing.abort();
  await until(9_000);
  assert.equal(looks.length, before);
});
