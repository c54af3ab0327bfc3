/** A host for tests: the real loop over a store, an engine and a discovery that writes down what it is told. */
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { assignedJobSchema, cellKeys, jobStatusSchema } from '@flynn/scheduler/cell';
import type { AssignedJob, JobStatus, JobTemplate } from '@flynn/scheduler/cell';
import type { Store } from '@flynn/store/store';
import type { Announcer, Instance } from './announcer.ts';
import { ContainerTable } from './container-table.ts';
import type { Engine } from './engine.ts';
import { startHost } from './host.ts';
import type { Host } from './host.ts';
import type { HostSettings } from './spec.ts';
import type { StepContext } from './steps.ts';

export const hostId = 'h1';

export function jobOf(id: string, template: Partial<JobTemplate> = {}, rest: Partial<AssignedJob> = {}): AssignedJob {
  return assignedJobSchema.parse({
    id: `${hostId}-${id}`,
    workloadId: 'w1',
    version: 'v1',
    index: 0,
    desired: 'run',
    createdAt: Date.now(),
    template: {
      image: { name: 'base' },
      command: ['sh', '-c', 'exec sleep 10000'],
      resources: { memoryBytes: 64 * 2 ** 20, cpuMillis: 100 },
      stopTimeoutMs: 1_000,
      ...template,
    },
    ...rest,
  });
}

export class AnnouncerProbe implements Announcer {
  readonly instances = new Map<string, Instance>();
  readonly calls: string[] = [];

  async register(instance: Instance): Promise<void> {
    this.calls.push(`register ${instance.service}`);
    this.instances.set(`${instance.service}/${instance.id}`, instance);
  }

  async deregister(service: string, id: string): Promise<void> {
    this.calls.push(`deregister ${service}`);
    this.instances.delete(`${service}/${id}`);
  }
}

export type HostFixture = {
  host: Host;
  announcer: AnnouncerProbe;
  containers: ContainerTable;
  assign(jobs: AssignedJob[]): Promise<void>;
  statusOf(job: AssignedJob): Promise<JobStatus | undefined>;
  /** Polls until the job's status in the store is as asked for. */
  reach(job: AssignedJob, what: string, test: (status: JobStatus) => boolean): Promise<JobStatus>;
  /** The agent goes; containers stay. */
  stop(): Promise<void>;
};

export async function openHost(options: {
  engine: Engine;
  store: Store;
  settings?: Partial<HostSettings>;
  announcer?: AnnouncerProbe;
  beforeStart?: StepContext['beforeStart'];
  mayStartSingletons?: () => boolean;
}): Promise<HostFixture> {
  const { engine, store, announcer = new AnnouncerProbe() } = options;
  const tasks = new TaskGroup();
  const log = silentLogger();
  const containers = new ContainerTable({ engine, log });
  tasks.run('containers', (signal) => containers.run(signal));
  const host = await startHost(
    {
      host: {
        cluster: 'test',
        networkName: 'flynn-test',
        hostId,
        externalAddress: '127.0.0.1',
        gateway: '127.0.0.1',
        ...options.settings,
      },
      engine,
      containers,
      store,
      announcer,
      beforeStart: options.beforeStart ?? (async () => undefined),
      isLogShipped: () => true,
      mayStartSingletons: options.mayStartSingletons ?? (() => true),
      log,
    },
    tasks,
  );
  const statusOf = async (job: AssignedJob) => {
    const entry = await store.get(cellKeys.jobStatus(hostId, job.id));
    return entry === undefined ? undefined : jobStatusSchema.parse(JSON.parse(entry.value));
  };
  return {
    host,
    announcer,
    containers,
    statusOf,
    async assign(jobs) {
      const value = JSON.stringify({ planId: 'p1', jobs });
      await store.transact({ then: [{ put: cellKeys.assignment(hostId, 'p1'), value }] });
    },
    reach: (job, what, test) =>
      waitFor(
        async () => {
          const status = await statusOf(job);
          return status !== undefined && test(status) && status;
        },
        { what: `${job.id} to be ${what}`, deadlineMs: 20_000, intervalMs: 5 },
      ),
    stop: () => tasks.stop(),
  };
}
