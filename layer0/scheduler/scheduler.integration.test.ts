import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { startEtcdMember } from '@flynn/store/etcd-member';
import { connectEtcd } from '@flynn/store/etcd';
import type { Store } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { assignmentSchema, cellKeys } from './cell.ts';
import type { WorkloadInput } from './cell.ts';
import { workloadChange } from './evaluations.ts';
import { checkHistory } from './history.ts';
import { startScheduler } from './scheduler.ts';
import { hostOf, hostPut, mebibyte, readCell, workloadInputOf } from './testing.ts';

const log = silentLogger();
const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const context = () => ({ now: Date.now(), newId });
const change = (store: Store, workload: WorkloadInput) => store.transact({ then: workloadChange(workload, context()) });

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

  const all = Array.from({ length: 15 }, (_, n) => workloadInputOf({ id: `app${n}`, count: 3 }));
  await Promise.all(all.map((one) => change(store, one)));
  const settled = async () => {
    const cell = await readCell(store);
    const pending = [...cell.evaluations.values()].filter(({ value }) => value.state === 'pending');
    return pending.length === 0 && cell.evaluations.size > 0 ? cell : undefined;
  };
  const cell = await waitFor(settled, { what: 'every evaluation', deadlineMs: 60_000 });
  assert.equal(cell.jobCount, 30, 'three hosts for ten jobs each are full');

  const placed = new Set<string>();
  const watching = connect();
  const following = (async () => {
    for await (const { changes } of watching.watch(cellKeys.assignments, {
      after: cell.revision,
      signal: stop.signal,
    })) {
      for (const one of changes) {
        if (one.type !== 'put') continue;
        const { groups } = assignmentSchema.parse(JSON.parse(one.entry.value));
        for (const { workloadId } of groups) placed.add(workloadId);
      }
    }
  })();
  const latencies: number[] = [];
  for (let n = 0; n < 20; n += 1) {
    const id = `small${n}`;
    const small = workloadInputOf({
      id,
      kind: 'ephemeral',
      template: { resources: { memoryBytes: 1_000, cpuMillis: 1 } },
    });
    const startedMs = performance.now();
    await change(store, small);
    await waitFor(() => placed.has(id), {
      what: id,
      deadlineMs: 30_000,
      intervalMs: 1,
    });
    latencies.push(performance.now() - startedMs);
  }
  latencies.sort((a, b) => a - b);
  t.diagnostic(
    `workload written to placed, ms: median ${latencies[10]?.toFixed(1)}, worst ${latencies.at(-1)?.toFixed(1)}`,
  );

  stop.abort();
  await following;
  const { violations, revisions } = await checkHistory(store, { from: first, signal: AbortSignal.timeout(60_000) });
  assert.deepEqual(violations, []);
  assert.ok(revisions > 50, `${revisions} revisions`);
});
