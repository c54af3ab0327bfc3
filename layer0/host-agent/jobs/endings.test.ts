import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { Engine } from '../engine/engine.ts';
import { jobOf, openHost, scenario } from '../host-fixture.ts';
import { Endings, usualLimits } from './endings.ts';

const eventually = { deadlineMs: 60_000, intervalMs: 5 };
const never = new AbortController().signal;

/** An engine whose containers end when they are told to by `go`. */
function stops() {
  const waiting = new Map<string, () => void>();
  const begun: string[] = [];
  let most = 0;
  return {
    begun,
    waiting,
    get most() {
      return most;
    },
    async stop(id: string) {
      const { promise, resolve } = Promise.withResolvers<void>();
      begun.push(id);
      waiting.set(id, resolve);
      most = Math.max(most, waiting.size);
      await promise;
      waiting.delete(id);
    },
  };
}

test('containers end a few at a time, in the order they were asked for', async () => {
  const engine = stops();
  const endings = new Endings(engine, { atOnce: 2, turnMs: 60_000 });
  const ids = ['a', 'b', 'c', 'd', 'e'];
  const all = Promise.all(ids.map((id) => endings.stop(id, { timeoutMs: 1_000, signal: never })));
  await waitFor(() => engine.begun.length === 2, { what: 'the first two', ...eventually });
  const isThrough = (): boolean => {
    for (const end of engine.waiting.values()) end();
    return engine.begun.length === ids.length && engine.waiting.size === 0;
  };
  await waitFor(isThrough, { what: 'the rest', ...eventually });
  await all;
  assert.deepEqual(engine.begun, ids);
  assert.equal(engine.most, 2);
});

test('who takes its time to end keeps nobody else from their TERM, and is waited for by who asked', async () => {
  const engine = stops();
  const endings = new Endings(engine, { atOnce: 1, turnMs: 20 });
  let hasEnded = false;
  const slow = endings.stop('slow', { timeoutMs: 600_000, signal: never }).then(() => (hasEnded = true));
  const quick = endings.stop('quick', { timeoutMs: 1_000, signal: never });
  await waitFor(() => engine.begun.length === 2, { what: 'the other one', ...eventually });
  engine.waiting.get('quick')?.();
  await quick;
  assert.equal(hasEnded, false);
  engine.waiting.get('slow')?.();
  await slow;
});

test('what the engine refuses is told to who asked, and makes room for the next one', async () => {
  const refusing = new Endings({ stop: (id) => Promise.reject(new Error(id)) }, { atOnce: 1, turnMs: 60_000 });
  for (const id of ['a', 'b']) {
    await assert.rejects(refusing.stop(id, { timeoutMs: 1_000, signal: never }), { message: id });
  }
});

test('jobs of a host that are all to stop end four at a time', () =>
  scenario(async ({ engine, store }) => {
    const seen = stops();
    const stop: Engine['stop'] = async (id, call) => (await seen.stop(id), engine.stop(id, call));
    // A machine that stands still does not end the turn of those that wait here.
    const endings = { ...usualLimits, turnMs: 600_000 };
    const agent = await openHost({ engine: { ...engine, stop }, store, endings });
    const jobs = Array.from({ length: 9 }, (_, at) => jobOf(`a${at}`, { drainMs: 0 }));
    await agent.assign(jobs);
    for (const job of jobs) await agent.reach(job, 'running', ({ state }) => state === 'running');
    await agent.assign([]);
    await waitFor(() => seen.waiting.size >= 4, { what: 'the first to be stopped', ...eventually });
    const isThrough = (): boolean => {
      for (const end of seen.waiting.values()) end();
      return agent.containers.all().every(({ state }) => state === 'exited');
    };
    await waitFor(isThrough, { what: 'all to end', ...eventually });
    assert.equal(seen.most, 4);
    await agent.stop();
  }));
