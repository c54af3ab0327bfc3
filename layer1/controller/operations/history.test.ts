import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { CompactedError } from '@flynn/store/store';
import type { Store } from '@flynn/store/store';
import { OperationHistory, endedRow } from './history.ts';
import type { EndedOperation } from './history.ts';
import { logKeys } from './log.ts';
import { expiredOfApp, pruneHistory } from './pruning.ts';
import { historyKey, historyPrefix, historyPut, historyShards } from './records.ts';
import type { OperationResource } from '../resources.ts';
import { endedOperation as ended } from './ended-fixture.ts';

const log = silentLogger();
const { signal } = new AbortController();

async function write(store: Store, ...operations: OperationResource[]): Promise<void> {
  await store.transact({
    then: operations.flatMap((one) => [historyPut(one), { put: logKeys.end(one.id), value: '{}' }]),
  });
}

const idsOf = (found: readonly { id: string }[]): string[] => found.map(({ id }) => id);

test('it finds the newest, of all or of an app, those that ended before it was opened and since', async () => {
  await using store = createMemoryStore();
  await write(store, ended('o1', 1), ended('o3', 3, 'b'), ended('o2', 2));
  await using history = new OperationHistory({ store, log });
  assert.deepEqual(idsOf(await history.newest({ limit: 10, signal })), ['o3', 'o2', 'o1']);
  await write(store, ended('o4', 4));
  await waitFor(() => history.size === 4, { what: 'the fourth', deadlineMs: 30_000 });
  assert.deepEqual(idsOf(await history.newest({ appId: 'a', limit: 2, signal })), ['o4', 'o2']);
  await store.transact({ then: [{ delete: historyKey('o4') }] });
  await waitFor(() => history.size === 3, { what: 'it to go', deadlineMs: 30_000 });
  history.add(ended('o5', 5));
  history.add(ended('o5', 5));
  assert.equal(history.size, 4);
  assert.deepEqual(idsOf(await history.rowsOfApp('a', signal)), ['o5', 'o2', 'o1']);
});

test('while nobody asks nothing is read of it for a while; who asks does not wait for that', async () => {
  await using store = createMemoryStore();
  await write(store, ended('o1', 1), ended('o2', 2));
  await using history = new OperationHistory({ store, log, quietMs: 3_600_000 });
  await pause(200, signal);
  assert.equal(history.size, 0);
  assert.deepEqual(idsOf(await history.newest({ limit: 10, signal })), ['o2', 'o1']);
  await using later = new OperationHistory({ store, log, quietMs: 1 });
  await waitFor(() => later.size === 2, { what: 'both, unasked', deadlineMs: 30_000 });
});

test('of very many only the newest are indexed, whatever their order', async () => {
  await using store = createMemoryStore();
  await write(store, ...Array.from({ length: 50 }, (_, index) => ended(`o${index}`, (index * 7) % 50)));
  await using history = new OperationHistory({ store, log, max: 10 });
  await history.ready(signal);
  assert.equal(history.size, 10);
  const found = await history.newest({ limit: 100, signal });
  assert.deepEqual(
    found.map(({ status }) => Date.parse(status.endedAt ?? '') / 1_000),
    [49, 48, 47, 46, 45, 44, 43, 42, 41, 40],
  );
  assert.equal(history.horizon?.endedAt, new Date(40_000).toISOString());
});

test('a record that cannot be read is left out and holds nobody up', async () => {
  await using store = createMemoryStore();
  await write(store, ended('o1', 1));
  await store.transact({ then: [{ put: historyKey('o2'), value: '{"id":"o2"}' }] });
  await using history = new OperationHistory({ store, log });
  assert.deepEqual(idsOf(await history.newest({ limit: 10, signal })), ['o1']);
});

test('when what happened meanwhile was compacted away it reads everything anew', async () => {
  await using store = createMemoryStore();
  await write(store, ended('o1', 1));
  let watches = 0;
  const forgetful: Pick<Store, 'list' | 'watch' | 'transact'> = {
    list: (prefix, options) => store.list(prefix, options),
    transact: (transaction, options) => store.transact(transaction, options),
    watch(prefix, options) {
      watches += 1;
      if (watches > 1) return store.watch(prefix, options);
      return (async function* () {
        await write(store, ended('o2', 2));
        await store.transact({ then: [{ delete: historyKey('o1') }] });
        yield* [];
        throw new CompactedError(options.after);
      })();
    },
  };
  await using history = new OperationHistory({ store: forgetful, log, quietMs: 0 });
  await waitFor(() => watches === 2, { what: 'a second watch', deadlineMs: 30_000 });
  assert.deepEqual(idsOf(await history.newest({ limit: 10, signal })), ['o2']);
});

test('the oldest beyond what is indexed are pruned with their logs; below that nothing is', async () => {
  await using store = createMemoryStore();
  const leader = { put: '/flynn/leader/test', value: '1' };
  const { revision } = await store.transact({ then: [leader] });
  const epoch = { key: leader.put, createRevision: revision };
  await write(store, ...Array.from({ length: 300 }, (_, index) => ended(`o${index}`, index)));
  const count = async (prefix: string): Promise<number> => (await store.list(prefix)).entries.length;
  {
    await using roomy = new OperationHistory({ store, log, max: 301 });
    assert.equal(await pruneHistory({ store, history: roomy }, { signal, epoch }), 0);
  }
  await using history = new OperationHistory({ store, log, max: 20 });
  assert.equal(await pruneHistory({ store, history }, { signal, epoch: { ...epoch, createRevision: 1 } }), 0);
  assert.equal(await count(historyPrefix), 300, 'a worker that lost its seat removes nothing');
  assert.equal(await pruneHistory({ store, history }, { signal, epoch }), 280);
  assert.equal(await count(historyPrefix), 20);
  assert.equal(await count(logKeys.prefix), 20);
  assert.deepEqual(idsOf(await history.newest({ limit: 1, signal })), ['o299']);
  assert.equal(await pruneHistory({ store, history }, { signal, epoch }), 0);
});

test('of an app whole pushes go, never one of which something still runs', () => {
  const rows = Array.from({ length: 10 }, (_, index): EndedOperation => {
    return { id: `o${index}`, appId: 'a', pushId: `p${Math.floor(index / 3)}`, endedAt: '' };
  });
  assert.deepEqual(idsOf(expiredOfApp(rows, new Set(), 4)), ['o6', 'o7', 'o8', 'o9']);
  assert.deepEqual(idsOf(expiredOfApp(rows, new Set(['p2']), 4)), ['o9']);
  assert.deepEqual(expiredOfApp(rows, new Set(), 50), []);
});

test('every record has its shard, and they are spread', () => {
  const used = new Set(Array.from({ length: 2_000 }, (_, index) => historyKey(`o${index}`).split('/')[3]));
  assert.equal(used.size, historyShards.length);
  for (const id of ['o1', 'build-0123']) {
    const key = historyKey(id);
    assert.ok(
      historyShards.some((shard) => key === `${shard}${id}`),
      key,
    );
  }
  const put = historyPut(ended('o1', 1));
  assert.ok('put' in put);
  const entry = { key: put.put, value: put.value, createRevision: 1, modRevision: 1 };
  assert.deepEqual(endedRow(entry), {
    id: 'o1',
    appId: 'a',
    pushId: 'push of o1',
    endedAt: new Date(1_000).toISOString(),
  });
});
