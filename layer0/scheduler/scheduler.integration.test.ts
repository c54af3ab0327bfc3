import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { startEtcdMember } from '@flynn/store/etcd-member';
import { connectEtcd } from '@flynn/store/etcd';
import type { Store } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cellKeys, cellPrefix } from './cell.ts';
import type { Workload } from './cell.ts';
import { workloadChange } from './evaluations.ts';
import { findViolations } from './invariants.ts';
import { startScheduler } from './scheduler.ts';
import { cellOf, hostOf, hostPut, mebibyte, readCell, workloadOf } from './testing.ts';

const log = silentLogger();
const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const context = () => ({ now: Date.now(), newId });
const change = (store: Store, workload: Workload) => store.transact({ then: workloadChange(workload, context()) });

test('schedulers on several connections fill a cell in etcd, and no revision of its history is wrong', async (t) => {
  await using open = new AsyncDisposableStack();
  const member = open.use(await startEtcdMember(image === undefined ? {} : { image }));
  const stop = new AbortController();
  const connect = () => open.use(connectEtcd({ endpoints: [member.endpoint], log }));
  const store = connect();
  const hosts = ['h1', 'h2', 'h3'];
  // Ten of the jobs below, and some small ones.
  const capacity = { memoryBytes: 1_001 * mebibyte, cpuMillis: 4_000 };
  const { revision: first } = await store.transact({ then: hosts.map((id) => hostPut(hostOf(id, { capacity }))) });
  for (const id of hosts) {
    open.use(await startScheduler({ store: connect(), log, signal: stop.signal, id, takeoverMs: 200 }));
  }

  const all = Array.from({ length: 15 }, (_, n) => workloadOf({ id: `app${n}`, count: 3 }));
  await Promise.all(all.map((one) => change(store, one)));
  const settled = async () => {
    const cell = await readCell(store);
    const pending = [...cell.evaluations.values()].filter(({ value }) => value.state === 'pending');
    return pending.length === 0 && cell.evaluations.size > 0 ? cell : undefined;
  };
  const cell = await waitFor(settled, { what: 'every evaluation', deadlineMs: 20_000 });
  const placed = [...cell.assignments.values()].reduce((sum, { value }) => sum + value.jobs.length, 0);
  assert.equal(placed, 30, 'three hosts for ten jobs each are full');

  const latencies: number[] = [];
  for (let n = 0; n < 20; n += 1) {
    const id = `small${n}`;
    const small = workloadOf({ id, kind: 'ephemeral', template: { resources: { memoryBytes: 1_000, cpuMillis: 1 } } });
    const startedMs = performance.now();
    await change(store, small);
    await waitFor(async () => (await store.get(cellKeys.evaluation(id))) === undefined, {
      what: id,
      deadlineMs: 5_000,
      intervalMs: 1,
    });
    latencies.push(performance.now() - startedMs);
  }
  latencies.sort((a, b) => a - b);
  t.diagnostic(
    `workload written to placed, ms: median ${latencies[10]?.toFixed(1)}, worst ${latencies.at(-1)?.toFixed(1)}`,
  );

  const { revision: last } = await store.list(cellPrefix);
  for (let revision = first; revision <= last; revision += 1) {
    const { entries } = await store.list(cellPrefix, { revision });
    assert.deepEqual(findViolations(cellOf(entries)), [], `revision ${revision}`);
  }
  stop.abort();
});
