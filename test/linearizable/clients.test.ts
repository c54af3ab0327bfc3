import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { startTestController } from '@flynn/controller/testing';
import { waitFor } from '@flynn/kit/retry';
import { FlynnError } from '@flynn/kit/errors';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store, Transaction } from '@flynn/store/store';
import { storeWith } from '@flynn/store/store-with';
import { type Call, linearize } from './checker.ts';
import { Clients, withoutUnlisted } from './clients.ts';
import { type SetInput, type SetOutput, setOfNames } from './models.ts';

/** Closed by whoever opened it. */
function withTransact(store: Store, transact: Store['transact']): Store {
  return storeWith(store, { transact, close: async () => {}, [Symbol.asyncDispose]: async () => {} });
}

/** As an etcd whose leader goes: now and then there is no answer, to what it has done or to what it has not. */
function losingAnswers(store: Store, random: () => number): Store {
  const lost = (): FlynnError => new FlynnError('unavailable', 'the answer was lost');
  return withTransact(store, async (...args) => {
    const choice = random();
    if (choice < 0.05) throw lost();
    const result = await store.transact(...args);
    if (choice < 0.1) throw lost();
    return result;
  });
}

/** As no store may be: what it did, some of it, it does again before what comes five later. */
function repeating(store: Store): Store {
  const done: Transaction[] = [];
  return withTransact(store, async (transaction, options) => {
    const { then } = transaction;
    if (then.some((operation) => 'put' in operation)) done.push({ then });
    const again = done.length % 5 === 0 ? done.at(-5) : undefined;
    if (again !== undefined) await store.transact(again);
    return store.transact(transaction, options);
  });
}

/** Numerical Recipes' quick generator: the same faults each time. */
function seeded(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** Five clients of two controllers, the second of them on this store. */
async function violationsOn(
  unsound: (store: Store) => Store,
  seed = 2,
): Promise<{ violations: string[]; unknown: number }> {
  await using store = createMemoryStore();
  const options = { hosts: 0, hasWorker: false };
  await using first = await startTestController({ ...options, store: losingAnswers(store, () => 1) });
  await first.client.call(apps.create, { body: { name: 'shop' } });
  await using second = await startTestController({ ...options, store: unsound(store) });
  await using clients = new Clients({
    doors: [first.url, second.url],
    token: first.userKey,
    app: 'shop',
    count: 5,
    pauseMs: 2,
    random: seeded(seed),
  });
  await waitFor(() => clients.counts.answered > 400, { what: 'some calls', deadlineMs: 60_000 });
  await clients.stop();
  return { violations: clients.violations(), unknown: clients.counts.unknown };
}

test('two controllers, one of which loses answers of the store: what clients see could have happened one after the other', async () => {
  const { violations, unknown } = await violationsOn((store) => losingAnswers(store, seeded(1)));
  assert.deepEqual(violations, []);
  assert.ok(unknown > 0, 'no answer was lost');
});

test('a store that repeats what it did is found out', async () => {
  // Whether what is done again meets what somebody else has done since is a matter of moments: not of many rounds in all of them.
  const found: string[] = [];
  for (let seed = 2; seed < 12 && found.length === 0; seed += 1) {
    found.push(...(await violationsOn((store) => repeating(store), seed)).violations);
  }
  assert.match(found.join('\n'), /none of these can be next/);
});

test('a name that was taken away before anybody listed it is missed by nobody, though its removal had no answer', () => {
  const call = (at: number, input: SetInput, output: SetOutput | undefined): Call<SetInput, SetOutput> => ({
    client: 'a',
    input,
    output,
    startedMs: at,
    endedMs: at + 1,
  });
  const calls = [
    call(0, { kind: 'add', name: 'x' }, 'done'),
    call(2, { kind: 'remove', name: 'x' }, undefined),
    call(4, { kind: 'list' }, []),
    call(6, { kind: 'add', name: 'never seen' }, undefined),
  ];
  const pruned = withoutUnlisted(calls);
  assert.deepEqual(pruned, calls.slice(0, 3));
  assert.equal(linearize(setOfNames, pruned).isLinearizable, true);
});
