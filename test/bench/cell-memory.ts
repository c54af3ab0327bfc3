/** What a scheduler's view of a large cell takes: 10,000 hosts, 100,000 workloads, a million jobs, each with a status. */
import { FlynnError } from '@flynn/kit/errors';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import type { Assignment } from '@flynn/scheduler/cell';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { SchedulerCore } from '@flynn/scheduler/core';
import { quickIds } from '@flynn/scheduler/quick-ids';
import type { Bench } from './bench.ts';
import { figure } from './figure.ts';
import { usedBytes } from './used-bytes.ts';

const hosts = 10_000;
const workloads = 100_000;
const jobsPerWorkload = 10;
const resources = { memoryBytes: 64 * 2 ** 20, cpuMillis: 100 };
const createdAt = 1_800_000_000_000;

export const bench: Bench = {
  needs: 'nothing',
  run: async () => {
    const before = usedBytes();
    const startedAt = performance.now();
    const core = filled();
    const seconds = (performance.now() - startedAt) / 1_000;
    const bytes = usedBytes() - before;
    const jobs = core.columns.jobCount;
    if (jobs !== workloads * jobsPerWorkload) throw new FlynnError('internal', `${jobs} jobs are in the columns`);
    return [
      figure({
        name: 'a million jobs, 100,000 workloads, 10,000 hosts',
        value: bytes / 2 ** 20,
        unit: 'MB',
        must: '<= 300 (aim 100)',
      }),
      figure({ name: 'of that columns', value: core.columns.columnBytes / 2 ** 20, unit: 'MB' }),
      figure({ name: 'entries folded', value: (jobs + workloads * 2 + hosts * 2) / seconds, unit: '/s' }),
    ];
  },
};

function filled(): SchedulerCore {
  const newId = quickIds();
  const core = new SchedulerCore({
    id: 'bench',
    newId,
    random: () => 0.5,
    tell(_level, message) {
      throw new FlynnError('internal', message);
    },
  });
  let revision = 1;
  const put = (key: string, value: unknown) => {
    revision += 1;
    const entry = { key, value: JSON.stringify(value), createRevision: revision, modRevision: revision };
    core.fold({ revision, changes: [{ type: 'put', entry }] }, createdAt);
  };
  const hostIds = Array.from({ length: hosts }, (_, at) => `host${at}`);
  for (const id of hostIds) {
    const capacity = { memoryBytes: 128 * resources.memoryBytes, cpuMillis: 12_800 };
    const attributes = { zone: `z${id.length % 3}` };
    put(
      cellKeys.host(id),
      hostRecordSchema.parse({ id, address: '192.0.2.1', apiPort: 1113, startedAt: 0, capacity, attributes }),
    );
  }
  for (let n = 0; n < workloads; n += 1) {
    const id = newId();
    const template = { image: { name: 'a' }, resources, meta: { 'flynn.app': newId(), 'flynn.type': 'web' } };
    const version = newId();
    const [workload] = workloadChange(
      { id, kind: 'service', count: jobsPerWorkload, version, template },
      { now: createdAt, newId },
    );
    if (workload === undefined || !('put' in workload)) throw new FlynnError('internal', 'a workload is no put');
    const value: { demand: Assignment['groups'][number]['demand'] } = JSON.parse(workload.value);
    put(workload.put, value);
    // Two hosts for each workload.
    for (let part = 0; part < 2; part += 1) {
      const hostId = hostIds[(n * 2 + part) % hosts] ?? '';
      const planId = newId();
      const jobs = Array.from({ length: jobsPerWorkload / 2 }, (_, at) => ({
        id: `${hostId}-${newId()}`,
        index: part * 5 + at,
        desired: 'run' as const,
        createdAt: createdAt + n,
      }));
      const group = { workloadId: id, version, demand: value.demand, singleton: false, jobs };
      put(cellKeys.assignment(hostId, planId), { planId, groups: [group] });
      for (const job of jobs) {
        const status = {
          id: job.id,
          hostId,
          workloadId: id,
          version,
          state: 'running',
          isFinal: false,
          createdAt: createdAt + n,
        };
        put(cellKeys.jobStatus(hostId, job.id), { ...status, startedAt: createdAt + n + 500 });
      }
    }
  }
  for (const id of hostIds) {
    const sums = { memoryBytes: 100 * resources.memoryBytes, cpuMillis: 10_000, jobs: 100, ports: {} };
    put(cellKeys.claim(id), { planId: newId(), ...sums });
  }
  return core;
}
