/** From evaluation to committed plan in memory: the broker, a plan, its batch, and a store that says yes and keeps nothing. */
import { FlynnError } from '@flynn/kit/errors';
import { Broker } from '@flynn/scheduler/broker';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import { CellColumns } from '@flynn/scheduler/columns/cell-columns';
import { Committer } from '@flynn/scheduler/committer';
import { makeEvaluation, workloadChange } from '@flynn/scheduler/evaluations';
import { Ledger } from '@flynn/scheduler/ledger';
import { Lcg } from '@flynn/scheduler/omega/lcg';
import { HostTable } from '@flynn/scheduler/placement/host-table';
import { quickIds } from '@flynn/scheduler/quick-ids';
import { schedule } from '@flynn/scheduler/schedulers/scheduler';
import { figure } from './figure.ts';
import type { Figure } from './figure.ts';

const hosts = 10_000;
const resources = { memoryBytes: 2 ** 26, cpuMillis: 50 };
const capacity = { memoryBytes: 1_000 * resources.memoryBytes, cpuMillis: 1_000 * resources.cpuMillis };
const placementsMeasured = 100_000;
/** Plans that the loop has under way at a time. */
const plansAtOnce = 64;
const lostHosts: ReadonlySet<string> = new Set();

type Pipeline = Readonly<{ kind: 'service' | 'ephemeral'; jobs: number }>;

export function pipelineFigures(): Figure[] {
  const figures: Figure[] = [];
  for (const kind of ['service', 'ephemeral'] as const) {
    // The first runs are the compiler's.
    for (const jobs of [1, 100]) measure({ kind, jobs }, 20_000);
    for (const jobs of [1, 10, 100]) {
      const { planned, committed } = measure({ kind, jobs }, placementsMeasured);
      const name = `whole pipeline, ${hosts} hosts, ${kind}, ${jobs} ${jobs === 1 ? 'job' : 'jobs'} an evaluation`;
      const must = jobs === 1 ? '>= 100000' : '>= 300000, aim 2000000';
      figures.push(
        figure({ name: `${name}: planned`, value: planned, unit: '/s', must }),
        figure({ name: `${name}: and written as transactions`, value: committed, unit: '/s' }),
      );
    }
  }
  return figures;
}

/** Placements a second of CPU: by broker, plan and ledger; and with the batches for the store. */
function measure({ kind, jobs }: Pipeline, wanted: number): { planned: number; committed: number } {
  const { cell, ledger } = cellOf(kind, jobs);
  const newId = quickIds();
  const lcg = new Lcg(7);
  const random = () => lcg.next();
  const broker = new Broker({ isOwn: () => true, newToken: newId });
  const committer = new Committer({ columns: cell, ledger, newId, lingerMs: 0, maxInFlight: 1 });
  let [planning, committing, revision] = [0, 0, cell.revision];
  for (let now = 1; committer.counts.placements < wanted; now += 1) {
    const startedAt = cpuMicroseconds();
    for (let n = 0; n < plansAtOnce; n += 1) {
      broker.enqueue(makeEvaluation(`w${n}`, 'workload', { now, newId }), now);
      const [delivery] = broker.dequeue(now, 1);
      if (delivery === undefined) throw new FlynnError('internal', 'the broker has nothing');
      const context = { now, newId, random, lostHosts, table: ledger.table };
      committer.submit(schedule(delivery.evaluation, cell, context), now);
      broker.ack(delivery.evaluation.id, delivery.token, now);
    }
    const plannedAt = cpuMicroseconds();
    for (let batch = committer.next(now); batch !== undefined; batch = committer.next(now)) {
      revision += 1;
      committer.settle(batch, { succeeded: true, revision, reads: [] });
    }
    committer.takeSettled();
    planning += plannedAt - startedAt;
    committing += cpuMicroseconds() - plannedAt;
  }
  const perSecond = (microseconds: number) => (committer.counts.placements * 1e6) / microseconds;
  return { planned: perSecond(planning), committed: perSecond(planning + committing) };
}

/** Workloads that nothing is ever heard of: each evaluation places all their jobs anew. */
function cellOf(kind: Pipeline['kind'], count: number): { cell: CellColumns; ledger: Ledger } {
  const cell = new CellColumns({
    onFault(key, error) {
      throw new FlynnError('internal', `${key} does not decode`, { cause: error });
    },
  });
  const ledger = new Ledger(new HostTable(hosts));
  let revision = 0;
  const put = (key: string, value: string) => {
    revision += 1;
    cell.fold({ type: 'put', entry: { key, value, createRevision: revision, modRevision: revision } });
  };
  for (let at = 0; at < hosts; at += 1) {
    const host = hostRecordSchema.parse({
      id: `h${at}`,
      address: '192.0.2.1',
      apiPort: 1113,
      startedAt: 0,
      capacity,
      attributes: { zone: `z${at % 3}` },
    });
    put(cellKeys.host(host.id), JSON.stringify(host));
    ledger.followHost(host.id, cell);
  }
  const template = { image: { name: 'a' }, resources };
  for (let n = 0; n < plansAtOnce; n += 1) {
    const input = { id: `w${n}`, kind, count, version: 'v1', template };
    const [workload] = workloadChange(input, { now: 0, newId: () => 'e' });
    if (workload !== undefined && 'put' in workload) put(workload.put, workload.value);
  }
  cell.advance(revision);
  return { cell, ledger };
}

function cpuMicroseconds(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}
