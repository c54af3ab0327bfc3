import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import { endedOperation } from './ended-fixture.ts';
import { OperationHistory } from './history.ts';
import { OperationLog, closeLog, logKeys } from './log.ts';
import { expiredLogs, logRoom, pruneLogs } from './log-pruning.ts';
import { historyPut } from './records.ts';

const { signal } = new AbortController();
const row = (id: string, appId: string, bytes: number) => ({ id, appId, bytes });

test('the oldest logs go beyond what those of an app may take, and those of all', () => {
  const room = { ofAppBytes: 10_000, ofAllBytes: 25_000 };
  const newestFirst = [
    row('a3', 'a', 6_000),
    row('a2', 'a', 6_000),
    row('a1', 'a', 2_000),
    row('b1', 'b', 10_000),
    row('c1', 'c', 9_000),
    row('d1', 'd', 1_024),
    row('e1', 'e', 1_025),
  ];
  assert.deepEqual(expiredLogs(newestFirst, room), ['a2', 'a1', 'e1']);
});

test('however many apps write logs as long as they may be, all of them are a small part of the store', () => {
  const rows = Array.from({ length: 10_000 }, (_, at) => row(`o${at}`, `app${at % 200}`, 4 * 1024 ** 2));
  const gone = new Set(expiredLogs(rows));
  const left = rows.filter(({ id }) => !gone.has(id)).reduce((sum, { bytes }) => sum + bytes, 0);
  assert.equal(left, logRoom.ofAllBytes);
});

async function write(store: Store, id: string, second: number): Promise<void> {
  await new OperationLog(store).append(id, 0, ['x'.repeat(2_000), `the end of ${id}`]);
  await store.transact({ then: [historyPut(endedOperation(id, second)), closeLog(id)] });
}

async function read(store: Store, id: string, from = 0): Promise<string[]> {
  const lines: string[] = [];
  for await (const { line, text } of new OperationLog(store).read(id, { from, signal })) lines.push(`${line} ${text}`);
  return lines;
}

test('a log that went says so to whoever reads it, the operation stays, and no log goes twice', async () => {
  await using store = createMemoryStore();
  const leader = { put: '/flynn/leader/test', value: '1' };
  const { revision } = await store.transact({ then: [leader] });
  const epoch = { key: leader.put, createRevision: revision };
  for (const second of [1, 2, 3]) await write(store, `o${second}`, second);
  await using history = new OperationHistory({ store, log: silentLogger() });
  const room = { ofAppBytes: 5_000, ofAllBytes: 5_000 };
  const lost = { ...epoch, createRevision: revision + 1 };
  assert.equal(await pruneLogs({ store, history }, { signal, epoch: lost }, room), 0);
  assert.equal((await read(store, 'o1')).length, 2, 'a worker that lost its seat drops nothing');
  assert.equal(await pruneLogs({ store, history }, { signal, epoch }, room), 1);
  const notice = '2 --- this log is not kept any more: newer ones needed its room ---';
  assert.deepEqual([await read(store, 'o1'), await read(store, 'o1', 2)], [[notice], [notice]]);
  assert.equal((await read(store, 'o2'))[1], '1 the end of o2');
  assert.equal((await history.newest({ limit: 9, signal })).length, 3);
  assert.equal(await pruneLogs({ store, history }, { signal, epoch }, room), 0);
});

test('interrupted when the lines are gone and the notice is not there, the next look puts it there', async () => {
  await using store = createMemoryStore();
  const leader = { put: '/flynn/leader/test', value: '1' };
  const { revision } = await store.transact({ then: [leader] });
  const epoch = { key: leader.put, createRevision: revision };
  await write(store, 'o1', 1);
  await store.transact({ then: [{ deletePrefix: logKeys.chunks('o1') }] });
  await using history = new OperationHistory({ store, log: silentLogger() });
  assert.equal(await pruneLogs({ store, history }, { signal, epoch }, { ofAppBytes: 0, ofAllBytes: 0 }), 1);
  assert.match((await read(store, 'o1')).join(), /not kept any more/);
});
