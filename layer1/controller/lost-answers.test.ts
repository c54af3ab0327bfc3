/** A store whose answers get lost, as etcd's do when its leader goes: whatever is asked for comes about, once. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { retry, waitFor, withDeadline } from '@flynn/kit/retry';
import { checkHistory } from '@flynn/scheduler/history';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { apps, deployments, formations, jobs, releases } from './api.ts';
import { startTestController } from './testing.ts';
import type { TestController } from './testing.ts';

/** Of a hundred writes so many; of reads a tenth of it, for one look at an app takes a hundred of them. */
const lostWrites = 0.02;
const lostReads = 0.002;
const deadlineMs = 90_000;
const params = { app: 'shop' };

/** Splitmix32 (Steele, Lea, Flood 2014): what fails is the same each time, as far as the order of calls is. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x9e3779b9) | 0;
    let mixed = Math.imul(state ^ (state >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}

class LossyStore implements Store {
  readonly #store: Store;
  readonly #random: () => number;
  lost = 0;
  isLossy = false;

  constructor(store: Store, random: () => number) {
    this.#store = store;
    this.#random = random;
  }

  get: Store['get'] = async (...args) => {
    this.#lose(lostReads);
    return this.#store.get(...args);
  };

  list: Store['list'] = async (...args) => {
    this.#lose(lostReads);
    return this.#store.list(...args);
  };

  /** Some are lost before they took effect, some after. */
  transact: Store['transact'] = async (...args) => {
    this.#lose(lostWrites);
    const result = await this.#store.transact(...args);
    this.#lose(lostWrites);
    return result;
  };

  watch: Store['watch'] = (...args) => this.#store.watch(...args);
  grantLease: Store['grantLease'] = (...args) => this.#store.grantLease(...args);
  compact: Store['compact'] = (...args) => this.#store.compact(...args);
  close: Store['close'] = () => this.#store.close();
  [Symbol.asyncDispose]: Store['close'] = () => this.#store.close();

  #lose(rate: number): void {
    if (!this.isLossy || this.#random() >= rate) return;
    this.lost += 1;
    throw new FlynnError('unavailable', 'the answer was lost');
  }
}

/** As a person does: asks again; `isDone` knows a refusal that says that it had been done. */
function insist(act: () => Promise<unknown>, isDone: (error: unknown) => boolean = () => false): Promise<unknown> {
  const ask = (): Promise<unknown> =>
    act().catch((error: unknown) => {
      if (!isDone(error)) throw error;
    });
  return retry(ask, { what: 'the controller', deadlineMs });
}

const wasDone = (error: unknown): boolean => hasCode(error, 'conflict', 'not_found');

/** Makes a release and waits until it is live and nothing of the rollout is under way. Its id. */
async function rollOut(world: TestController): Promise<string> {
  const { client } = world;
  await insist(() => world.makeRelease('shop', { web: {} }));
  const [release] = await retry(() => client.call(releases.list, { params }), { what: 'releases', deadlineMs });
  const releaseId = release?.id ?? '';
  await insist(() => client.call(deployments.create, { params, body: { releaseId } }), wasDone);
  await waitFor(
    async () => {
      const all = await client.call(deployments.list, { params });
      return all.every(({ endedAt }) => endedAt !== undefined) && all[0]?.newReleaseId === releaseId;
    },
    { what: 'the end of the rollout', deadlineMs, intervalMs: 10 },
  );
  return releaseId;
}

for (const seed of [1, 2, 3, 4]) {
  test(`an app is rolled out twice, scaled and deleted though answers are lost (${seed})`, async () => {
    const memory = createMemoryStore();
    const store = new LossyStore(memory, seeded(seed));
    await using world = await startTestController({ store });
    const { client } = world;
    const from = (await memory.list('')).revision;
    store.isLossy = true;
    await insist(() => client.call(apps.create, { body: { name: 'shop' } }), wasDone);
    const scale = (release: string, web: number) =>
      insist(() => client.call(formations.put, { params: { ...params, release }, body: { processes: { web } } }));
    await scale(await rollOut(world), 3);
    const last = await rollOut(world);
    await scale(last, 2);
    await waitFor(
      async () => {
        const running = (await client.call(jobs.list, { params })).filter(({ state }) => state === 'running');
        return running.length === 2 && running.every(({ releaseId }) => releaseId === last);
      },
      { what: 'two jobs of the last release', deadlineMs, intervalMs: 10 },
    );
    const { id } = await retry(() => client.call(apps.get, { params }), { what: 'the app', deadlineMs });
    await insist(() => client.call(apps.remove, { params }), wasDone);
    store.isLossy = false;
    await waitFor(async () => (await memory.list('/flynn/')).entries.every(({ key }) => !key.includes(id)), {
      what: 'the keys of the app to go',
      deadlineMs,
      intervalMs: 20,
    });
    const { violations } = await checkHistory(memory, { from, signal: withDeadline(deadlineMs) });
    assert.deepEqual(violations, []);
    assert.ok(store.lost > 0, 'no answer was lost');
  });
}
