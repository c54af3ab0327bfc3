/** Whatever happens to the watch, the columns end up as the store is. */
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { openTestStore } from '@flynn/store/testing';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CellFollower } from './cell-follower.ts';
import { cellKeys } from './cell.ts';
import { CellColumns } from './columns/cell-columns.ts';
import { hostOf, hostPut } from './testing.ts';

const log = silentLogger();

test('a history that was compacted away during a disconnect is listed again, and what is gone is let go', async () => {
  await using store = openTestStore();
  await store.transact({ then: ['h1', 'h2', 'h3'].map((id) => hostPut(hostOf(id))) });
  const connection = store.connect();
  const columns = new CellColumns({ onFault: (key, error) => assert.fail(`${key}: ${String(error)}`) });
  const told: number[] = [];
  const fold = ({
    revision,
    changes,
  }: {
    revision: number;
    changes: readonly Parameters<CellColumns['fold']>[0][];
  }) => {
    for (const change of changes) columns.fold(change);
    columns.advance(revision);
    told.push(columns.revision);
  };
  await using tasks = new TaskGroup();
  const follower = new CellFollower({ store: connection, columns, fold, log });
  await follower.open(tasks.signal);
  assert.deepEqual([...columns.hosts.keys()], ['h1', 'h2', 'h3']);
  follower.follow(tasks, tasks.signal);

  connection.disconnect();
  await store.transact({ then: [{ delete: cellKeys.host('h2') }] });
  const { revision } = await store.transact({
    then: [hostPut(hostOf('h4')), hostPut(hostOf('h1', { cordoned: true }))],
  });
  await store.compact(revision);
  connection.reconnect();
  await waitFor(() => columns.revision >= revision, { what: 'the present', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual([...columns.hosts.keys()].sort(), ['h1', 'h3', 'h4']);
  assert.equal(columns.hosts.get('h1')?.value.cordoned, true);
  assert.deepEqual(
    told,
    told.toSorted((a, b) => a - b),
    'the revision went back',
  );

  await store.transact({ then: [{ delete: cellKeys.host('h3') }] });
  await waitFor(() => !columns.hosts.has('h3'), { what: 'the next change', deadlineMs: 30_000, intervalMs: 5 });
  assert.equal(follower.driftCount, 0);
  await tasks.stop();
  await connection.close();
});
