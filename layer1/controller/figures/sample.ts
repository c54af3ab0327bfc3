/** What a look saw of apps' jobs, put together from what hosts told and what the cell says of jobs. Pure. */
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { appIdOf } from '../processes/compile.ts';
import type { TypeRow } from './history.ts';

export type RunningJob = Pick<SeenStatus, 'id' | 'workloadId' | 'hostId' | 'meta' | 'isUncertain'>;

/** One that is done with is not up. On a host that is away it ran when that was last heard of. */
export function runningOf(statuses: readonly SeenStatus[]): RunningJob[] {
  return statuses.filter(({ state }) => state === 'running');
}

/** Those there is something to be asked from: of one that is away nobody knows. */
export function hostsOf(jobs: readonly RunningJob[]): Set<string> {
  return new Set(jobs.flatMap(({ hostId, isUncertain }) => (isUncertain ? [] : hostId)));
}

export type Told = Readonly<{
  /** Processors that each job is busy with. */
  cores: ReadonlyMap<string, number>;
  memoryBytes: ReadonlyMap<string, number>;
  /** Of a job of this workload; undefined while the workload is not known. */
  memoryLimitOf: (workloadId: string) => number | undefined;
}>;

/** By app and type. What is not known of one job is not known of all of its type: a sum without it would be less. */
export function typeRows(jobs: readonly RunningJob[], told: Told): Map<string, Map<string, TypeRow>> {
  const rows = new Map<string, Map<string, TypeRow>>();
  for (const { id, workloadId, meta } of jobs) {
    const appId = appIdOf(workloadId);
    const type = meta['flynn.type'];
    if (type === undefined) continue;
    const types = rows.get(appId) ?? new Map<string, TypeRow>();
    rows.set(appId, types);
    const sum = types.get(type) ?? { jobs: 0, cpu: 0, memoryBytes: 0, memoryLimitBytes: 0 };
    types.set(type, {
      jobs: sum.jobs + 1,
      cpu: sum.cpu + (told.cores.get(id) ?? Number.NaN),
      memoryBytes: sum.memoryBytes + (told.memoryBytes.get(id) ?? Number.NaN),
      memoryLimitBytes: sum.memoryLimitBytes + (told.memoryLimitOf(workloadId) ?? Number.NaN),
    });
  }
  return rows;
}
