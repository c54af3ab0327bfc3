/** A cell of many hosts and many jobs in a real etcd, placed by one scheduler: how long, how much CPU, and is it right? */
import { setTimeout as sleep } from 'node:timers/promises';
import { newId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, cellPrefix, hostRecordSchema } from '@flynn/scheduler/cell';
import { CellColumns } from '@flynn/scheduler/columns/cell-columns';
import { cellKinds } from '@flynn/scheduler/columns/entries';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { findViolations } from '@flynn/scheduler/invariants';
import { startScheduler } from '@flynn/scheduler/scheduler';
import { FlynnError } from '@flynn/kit/errors';
import { connectEtcd } from '@flynn/store/etcd';
import type { Operation, Store } from '@flynn/store/store';
import type { EtcdMembers } from './etcd-members.ts';

export type LargeCell = Readonly<{
  hosts: number;
  workloads: number;
  jobsPerWorkload: number;
  kind: string;
}>;

export type LargeCellFigures = Readonly<{
  /** From the first workload written to the last evaluation ended. */
  seconds: number;
  placed: number;
  clientCpuSeconds: number;
  serverCpuSeconds: number;
  transactions: number;
  /** Reading everything afresh and checking every host. */
  verifySeconds: number;
  rssBytes: number;
}>;

const mebibyte = 2 ** 20;
const log = silentLogger();
const writesAtOnce = 200;

export async function placeLargeCell(members: EtcdMembers, cell: LargeCell): Promise<LargeCellFigures> {
  await using store = connectEtcd({ endpoints: [...members.endpoints], log, timeoutMs: 20_000 });
  await using own = connectEtcd({ endpoints: [...members.endpoints], log, timeoutMs: 20_000 });
  const wanted = cell.workloads * cell.jobsPerWorkload;
  const perHost = Math.ceil((wanted / cell.hosts) * 1.25);
  await writeAll(
    store,
    Array.from({ length: cell.hosts }, (_, at) => hostPut(at, perHost)),
  );
  const stop = new AbortController();
  const scheduler = await startScheduler({ store: own, log, signal: stop.signal, id: 'bench', sweepMs: 3_600_000 });
  const cpuBefore = process.cpuUsage();
  const serverBefore = await members.cpuSeconds();
  const startedAt = performance.now();
  for (let n = 0; n < cell.workloads; n += writesAtOnce / 4) {
    const few = Array.from({ length: Math.min(writesAtOnce / 4, cell.workloads - n) }, (_, at) =>
      workloadPut(n + at, cell),
    );
    await store.transact({ then: few.flat() });
  }
  await waitFor(
    () => {
      const { evaluations, placements } = scheduler.counts;
      return placements >= wanted && evaluations.ready + evaluations.outstanding + evaluations.pending === 0;
    },
    { what: `${wanted} placements`, deadlineMs: 600_000, intervalMs: 20 },
  );
  const seconds = (performance.now() - startedAt) / 1_000;
  const cpu = process.cpuUsage(cpuBefore);
  const serverCpuSeconds = (await members.cpuSeconds()) - serverBefore;
  const transactions = scheduler.counts.committed;
  const rssBytes = process.memoryUsage.rss();
  stop.abort();
  await scheduler[Symbol.asyncDispose]();
  const verifyStartedAt = performance.now();
  await verify(store, wanted);
  return {
    seconds,
    placed: wanted,
    clientCpuSeconds: (cpu.user + cpu.system) / 1e6,
    serverCpuSeconds,
    transactions,
    verifySeconds: (performance.now() - verifyStartedAt) / 1_000,
    rssBytes,
  };
}

/** From the store alone: every claim is the sum of its host's jobs and within its capacity, and all jobs are there. */
async function verify(store: Store, wanted: number): Promise<void> {
  const cell = new CellColumns({
    onFault(key, error) {
      throw new FlynnError('internal', `${key} does not decode`, { cause: error });
    },
  });
  for (const kind of cellKinds) {
    const { entries } = await store.list(`${cellPrefix}${kind}/`);
    for (const entry of entries) cell.fold({ type: 'put', entry });
    await sleep(0);
  }
  const [violation] = findViolations(cell);
  if (violation !== undefined) throw new FlynnError('internal', violation);
  if (cell.jobCount !== wanted) throw new FlynnError('internal', `${cell.jobCount} jobs are assigned, not ${wanted}`);
}

async function writeAll(store: Store, operations: readonly Operation[]): Promise<void> {
  for (let from = 0; from < operations.length; from += writesAtOnce) {
    await store.transact({ then: operations.slice(from, from + writesAtOnce) });
  }
}

function hostPut(at: number, jobs: number): Operation {
  const host = hostRecordSchema.parse({
    id: `h${at}`,
    address: '192.0.2.1',
    apiPort: 1113,
    startedAt: 0,
    capacity: { memoryBytes: jobs * 64 * mebibyte, cpuMillis: jobs * 100 },
    attributes: { zone: `z${at % 3}` },
  });
  return { put: cellKeys.host(host.id), value: JSON.stringify(host) };
}

function workloadPut(at: number, { kind, jobsPerWorkload }: LargeCell): Operation[] {
  const template = { image: { name: 'a' }, resources: { memoryBytes: 64 * mebibyte, cpuMillis: 100 } };
  const workload = { id: `w${at}`, kind, count: jobsPerWorkload, version: 'v1', template };
  return workloadChange(workload, { now: Date.now(), newId });
}
