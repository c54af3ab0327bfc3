/** Whatever happens to the watch, the columns end up as the store is. */
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { storeWith } from '@flynn/store/store-with';
import type { ChangeBatch, Store } from '@flynn/store/store';
import { lossyStore, openTestStore } from '@flynn/store/testing';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { CellFollower } from './cell-follower.ts';
import { cellKeys } from './cell.ts';
import { CellColumns } from './columns/cell-columns.ts';
import { SchedulerCore } from './core.ts';
import { evaluationWrite, makeEvaluation, workloadChange } from './evaluations.ts';
import { findViolations } from './invariants.ts';
import {
  hostOf,
  hostPut,
  placedOf,
  readCell,
  statusOf,
  stepHost,
  wellBehaved,
  workloadInputOf,
  workloadOf,
} from './testing.ts';

const log = silentLogger();
const errorOf = (key: string, error: unknown) => assert.fail(`${key}: ${String(error)}`);
const statusText = JSON.stringify(statusOf(placedOf(workloadOf(), 'a'), 'running'));
let ids = 0;
const newId = () => `id${(ids += 1)}`;

/** A core that looks for work after whatever is folded in, as one whose loop is woken by it, and sends it at once. */
function eagerCore(store: Store) {
  const core = new SchedulerCore({ id: 'nowhere', newId, random: () => 0.5, tell: () => undefined, lingerMs: 0 });
  const calls: Promise<void>[] = [];
  let now = 0;
  const work = () => {
    // Each time everything is due that ever will be: the repair, the end of a linger.
    now += 60_000;
    core.step(now);
    for (let batch = core.nextBatch(now); batch !== undefined; batch = core.nextBatch(now)) {
      const sent = batch;
      calls.push(store.transact(sent.transaction).then((answer) => core.answered(sent, answer, now)));
    }
  };
  const fold = (batch: ChangeBatch) => {
    core.fold(batch, now);
    work();
  };
  const follower = new CellFollower({ store, columns: core.columns, fold, log });
  return {
    core,
    follower,
    async open(tasks: TaskGroup) {
      await follower.open(tasks.signal);
      core.open(now);
      work();
      follower.follow(tasks);
    },
    /** What it sent is answered. */
    async rest() {
      for (const call of calls) await call;
    },
  };
}

test('a history that was compacted away during a disconnect is listed again, and what is gone is let go', async () => {
  await using store = openTestStore();
  await store.transact({ then: ['h1', 'h2', 'h3'].map((id) => hostPut(hostOf(id))) });
  const connection = store.connect();
  const columns = new CellColumns({ onFault: errorOf });
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
  follower.follow(tasks);

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

test('nothing is planned on a cell that is half listed again: no singleton has two jobs, no claim is less than nothing', async () => {
  await using store = openTestStore();
  const hosts = ['h1', 'h2', 'h3'];
  await store.transact({ then: hosts.map((id) => hostPut(hostOf(id))) });
  const at = { now: 0, newId };
  const singles = Array.from({ length: 8 }, (_, n) => workloadInputOf({ id: `db${n}`, singleton: true }));
  const gone = Array.from({ length: 4 }, (_, n) => workloadInputOf({ id: `svc${n}`, count: 2 }));
  const connection = store.connect();
  await using tasks = new TaskGroup();
  const [cutOff, other] = [eagerCore(connection), eagerCore(store)];
  await cutOff.open(tasks);
  await other.open(tasks);
  const settle = async (jobs: number) => {
    const isDone = async () => {
      for (const id of hosts) await stepHost(store, id, wellBehaved, at);
      const cell = await readCell(store);
      return cell.jobCount === jobs && cell.evaluations.size === 0;
    };
    await waitFor(isDone, { what: `${jobs} jobs`, deadlineMs: 30_000, intervalMs: 2 });
  };
  await store.transact({ then: gone.flatMap((one) => workloadChange(one, at)) });
  await settle(8);
  const present = async () => (await store.list('/')).revision;
  const caughtUp = await present();
  await waitFor(() => cutOff.core.columns.revision >= caughtUp, { what: 'both at the present', deadlineMs: 30_000 });

  connection.disconnect();
  await store.transact({ then: gone.flatMap((one) => workloadChange({ ...one, count: 0 }, at)) });
  await settle(0);
  await store.transact({ then: singles.flatMap((one) => workloadChange(one, at)) });
  await settle(8);
  const revision = await present();
  await store.compact(revision);
  connection.reconnect();
  await waitFor(() => cutOff.core.columns.revision >= revision, { what: 'the listing', deadlineMs: 30_000 });
  await cutOff.rest();
  await tasks.stop();

  const cell = await readCell(store);
  assert.deepEqual(findViolations(cell), []);
  assert.deepEqual(
    singles.map(({ id }) => cell.jobsOf(id).length),
    singles.map(() => 1),
  );
  assert.equal(cell.jobCount, 8);
  await connection.close();
});

test('what the watch lost is put right in one stretch, and what it lost of evaluations is found among those that ended', async () => {
  await using store = openTestStore();
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const evaluation = (id: string) => makeEvaluation('web', 'repair', { now: 0, newId: () => id });
  const ended = Array.from({ length: 150 }, (_, n) => evaluation(`old${n}`));
  await store.transact({ then: ended.map((one) => evaluationWrite({ ...one, state: 'complete' })) });
  let isLosing = false;
  let read = 0;
  let compared = 0;
  const lossy = storeWith(
    lossyStore(store, () => isLosing),
    {
      list(prefix, options = {}) {
        if (prefix === cellKeys.evaluations && options.isKeysOnly === true) compared += 1;
        return store.list(prefix, options);
      },
      transact(...args) {
        read += args[0].then.length;
        return store.transact(...args);
      },
    },
  );
  const columns = new CellColumns({ onFault: () => undefined });
  const folded: number[] = [];
  const fold = ({ revision, changes }: ChangeBatch) => {
    for (const change of changes) columns.fold(change);
    columns.advance(revision);
    if (changes.length > 0) folded.push(changes.length);
  };
  await using tasks = new TaskGroup();
  const follower = new CellFollower({ store: lossy, columns, fold, log, resyncMs: 10 });
  await follower.open(tasks.signal);
  folded.length = 0;
  follower.follow(tasks);
  const { revision } = await store.transact({
    then: [
      evaluationWrite({ ...evaluation('watched'), state: 'failed' }),
      { put: cellKeys.evaluation('odd'), value: '{"state":"complete"}' },
    ],
  });
  await waitFor(() => columns.revision >= revision, { what: 'the watch', deadlineMs: 30_000, intervalMs: 2 });
  const since = compared;
  await waitFor(() => compared >= since + 2, { what: 'a comparison', deadlineMs: 30_000, intervalMs: 2 });
  assert.equal(follower.driftCount, 0);
  assert.equal(read, 0, 'what ended was listed and watched with its value');
  folded.length = 0;
  isLosing = true;
  const lost = [hostPut(hostOf('h2')), evaluationWrite(evaluation('new')), { delete: cellKeys.evaluation('old0') }];
  await store.transact({ then: [...lost, { put: cellKeys.lastPlan('web'), value: '{"planId":"p"}' }] });
  await waitFor(() => columns.hosts.has('h2'), { what: 'what was lost', deadlineMs: 30_000, intervalMs: 2 });
  assert.deepEqual([...columns.evaluations.keys()], ['new']);
  assert.ok(columns.planRevisionOf('web') > 0);
  assert.deepEqual(folded, [3]);
  assert.ok(follower.driftCount > 0);
  assert.ok(read <= 1, `${read} evaluations were read`);
  await tasks.stop();
});

test('what differs after all was listed again is not listed once more, and what is lost later still is', async () => {
  await using store = openTestStore();
  // The columns take a job's id for one that begins with its host's.
  await store.transact({ then: [hostPut(hostOf('h1')), { put: cellKeys.jobStatus('h1', 'odd'), value: statusText }] });
  const columns = new CellColumns({ onFault: errorOf });
  const fold = ({ revision, changes }: ChangeBatch) => {
    for (const change of changes) columns.fold(change);
    columns.advance(revision);
  };
  let isLosing = false;
  let [compared, listed] = [0, 0];
  const counted = storeWith(
    lossyStore(store, () => isLosing),
    {
      list(prefix, options = {}) {
        if (prefix === cellKeys.hostStatus('h1')) compared += 1;
        if (prefix === cellKeys.hosts && options.isKeysOnly !== true) listed += 1;
        return store.list(prefix, options);
      },
    },
  );
  await using tasks = new TaskGroup();
  const follower = new CellFollower({ store: counted, columns, fold, log, resyncMs: 5 });
  await follower.open(tasks.signal);
  follower.follow(tasks);
  await waitFor(() => compared >= 10, { what: 'ten comparisons', deadlineMs: 30_000, intervalMs: 1 });
  assert.equal(listed, 2, 'once at the start, and once for what differed');
  const { driftCount } = follower;
  isLosing = true;
  const late = { put: cellKeys.jobStatus('h1', 'h1-a'), value: statusText };
  const { revision } = await store.transact({ then: [late] });
  const isHeld = () => [...columns.versions('status', 'h1')].some(([key, at]) => key === late.put && at === revision);
  await waitFor(isHeld, { what: 'what was lost', deadlineMs: 30_000, intervalMs: 1 });
  assert.equal(follower.driftCount, driftCount + 1);
  await tasks.stop();
});

test('an entry that could not be read, and was mended while nobody watched, is read', async () => {
  await using store = openTestStore();
  const connection = store.connect();
  const bad = [cellKeys.host('h1'), cellKeys.host('h2')];
  await store.transact({ then: bad.map((put) => ({ put, value: '{}' })) });
  const columns = new CellColumns({ onFault: () => undefined });
  const fold = ({ revision, changes }: ChangeBatch) => {
    for (const change of changes) columns.fold(change);
    columns.advance(revision);
  };
  await using tasks = new TaskGroup();
  const follower = new CellFollower({ store: connection, columns, fold, log });
  await follower.open(tasks.signal);
  assert.deepEqual([...columns.faulty.keys()], bad);
  follower.follow(tasks);
  connection.disconnect();
  await store.transact({ then: [hostPut(hostOf('h1')), { delete: cellKeys.host('h2') }] });
  const { revision } = await store.transact({ then: [hostPut(hostOf('h3'))] });
  await store.compact(revision);
  connection.reconnect();
  await waitFor(() => columns.revision >= revision, { what: 'the listing', deadlineMs: 30_000, intervalMs: 2 });
  assert.deepEqual([...columns.hosts.keys()].sort(), ['h1', 'h3']);
  assert.equal(columns.faulty.size, 0);
  await tasks.stop();
  await connection.close();
});

test('in a cell where nothing happens what the watch lost is found, though the store goes on and drops its history', async () => {
  await using store = openTestStore();
  const connection = store.connect();
  await store.transact({ then: [hostPut(hostOf('h1'))] });
  const columns = new CellColumns({ onFault: errorOf });
  const fold = ({ revision, changes }: ChangeBatch) => {
    for (const change of changes) columns.fold(change);
    columns.advance(revision);
  };
  await using tasks = new TaskGroup();
  let isLosing = true;
  const lossy = lossyStore(connection, () => isLosing);
  const follower = new CellFollower({ store: lossy, columns, fold, log, resyncMs: 10 });
  await follower.open(tasks.signal);
  const lost = (await store.transact({ then: [hostPut(hostOf('h2'))] })).revision;
  follower.follow(tasks);
  await waitFor(() => columns.revision >= lost, { what: 'the loss', deadlineMs: 30_000, intervalMs: 1 });
  isLosing = false;
  const elsewhere = { put: '/flynn/resource/app/a', value: '{}' };
  for (let n = 0; n < 20; n += 1) await store.transact({ then: [elsewhere] });
  await store.compact((await store.transact({ then: [elsewhere] })).revision);
  connection.tellProgress();
  await waitFor(() => columns.hosts.has('h2'), { what: 'what was lost', deadlineMs: 30_000, intervalMs: 2 });
  assert.equal(follower.driftCount, 1);
  await tasks.stop();
  await connection.close();
});

test('comparisons ask for keys alone, and for what is of no host once in a round of the hosts', async () => {
  await using store = openTestStore();
  const hosts = Array.from({ length: 150 }, (_, n) => `h${100 + n}`);
  const status = (hostId: string) => ({ put: cellKeys.jobStatus(hostId, `${hostId}-a`), value: statusText });
  await store.transact({ then: hosts.map(status) });
  const columns = new CellColumns({ onFault: errorOf });
  const fold = ({ revision, changes }: ChangeBatch) => {
    for (const change of changes) columns.fold(change);
    columns.advance(revision);
  };
  const asked: string[] = [];
  const counted = storeWith(store, {
    list(prefix, options = {}) {
      if (columns.revision > 0) {
        assert.equal(options.isKeysOnly, true, prefix);
        asked.push(prefix);
      }
      return store.list(prefix, options);
    },
  });
  await using tasks = new TaskGroup();
  const follower = new CellFollower({ store: counted, columns, fold, log, resyncMs: 5 });
  await follower.open(tasks.signal);
  follower.follow(tasks);
  const of = (prefix: string) => asked.filter((one) => one === prefix).length;
  const last = cellKeys.hostStatus('h249');
  await waitFor(() => of(last) === 2, { what: 'two rounds', deadlineMs: 30_000, intervalMs: 1 });
  await tasks.stop();
  const rounds = of(cellKeys.workloads);
  assert.ok(rounds === 2 || rounds === 3, `the workloads were compared ${rounds} times`);
  for (const hostId of hosts) assert.ok(of(cellKeys.hostStatus(hostId)) >= 2, hostId);
  assert.equal(follower.driftCount, 0);
});
