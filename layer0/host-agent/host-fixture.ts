/** A host for tests: the real loop over a store, an engine and a discovery that writes down what it is told. */
import { createHash } from 'node:crypto';
import { type Logger, silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { cellKeys, jobStatusSchema } from '@flynn/scheduler/cell';
import { jobTemplateSchema } from '@flynn/scheduler/job-template';
import { evaluationSchema } from '@flynn/scheduler/evaluation';
import type { AssignedGroup, HostJob, JobStatus } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import type { Operation, Store } from '@flynn/store/store';
import type { z } from 'zod';
import type { Announcer, Instance } from './discovery/announcer.ts';
import { ContainerTable } from './containers/table.ts';
import type { Engine } from './engine/engine.ts';
import { startHost } from './host.ts';
import type { Host } from './host.ts';
import { createMemoryEngine } from './engine/memory.ts';
import type { HostSettings } from './containers/spec.ts';
import { Standing } from './fencing/standing.ts';
import type { EndingLimits } from './jobs/endings.ts';
import type { StepContext } from './jobs/steps.ts';

export const hostId = 'h1';

export function jobOf(
  id: string,
  template: Partial<z.input<typeof jobTemplateSchema>> = {},
  rest: Partial<HostJob> = {},
): HostJob {
  const whole = jobTemplateSchema.parse({
    image: { name: 'base' },
    command: ['sh', '-c', 'exec sleep 10000'],
    resources: { memoryBytes: 64 * 2 ** 20, cpuMillis: 100 },
    stopTimeoutMs: 1_000,
    ...template,
  });
  return {
    id: `${hostId}-${id}`,
    workloadId: 'w1',
    version: createHash('sha256').update(JSON.stringify(whole)).digest('hex').slice(0, 16),
    index: 0,
    desired: 'run',
    singleton: false,
    createdAt: Date.now(),
    template: whole,
    ...rest,
  };
}

function groupOf({ id, workloadId, version, index, desired, singleton, createdAt, template }: HostJob): AssignedGroup {
  const demand = { ...template.resources, hostPorts: [], family: workloadId, volumes: [] };
  return { workloadId, version, demand, singleton, jobs: [{ id, index, desired, createdAt }] };
}

export class AnnouncerProbe implements Announcer {
  readonly instances = new Map<string, Instance>();
  readonly calls: string[] = [];
  vouched: readonly string[] = [];

  async register(instance: Instance): Promise<void> {
    this.calls.push(`register ${instance.service}`);
    this.instances.set(`${instance.service}/${instance.id}`, instance);
  }

  async deregister(service: string, id: string): Promise<void> {
    this.calls.push(`deregister ${service}`);
    this.instances.delete(`${service}/${id}`);
  }

  vouchFor(services: readonly string[]): void {
    this.vouched = services;
  }
}

/** Of an agent whose host's record stands for as long as it lives. */
function standingAlways(): Standing {
  const standing = new Standing();
  standing.stand({ lost: new AbortController().signal });
  return standing;
}

export type HostFixture = {
  host: Host;
  announcer: AnnouncerProbe;
  containers: ContainerTable;
  /** These and no others. Their templates are there unless asked for otherwise. */
  assign(jobs: HostJob[], options?: { hasTemplates: boolean }): Promise<void>;
  statusOf(job: HostJob): Promise<JobStatus | undefined>;
  /** Polls until the job's status in the store is as asked for. */
  reach(job: HostJob, what: string, test: (status: JobStatus) => boolean, deadlineMs?: number): Promise<JobStatus>;
  /** The agent goes; containers stay. */
  stop(): Promise<void>;
};

export async function openHost(options: {
  engine: Engine;
  store: Store;
  settings?: Partial<HostSettings>;
  announcer?: AnnouncerProbe;
  routers?: StepContext['routers'];
  beforeStart?: StepContext['beforeStart'];
  mayStartSingletons?: () => boolean;
  isEngineHung?: () => boolean;
  endings?: EndingLimits;
  note?: StepContext['note'];
  standing?: Standing;
  log?: Logger;
}): Promise<HostFixture> {
  const { engine, store, announcer = new AnnouncerProbe(), standing = standingAlways() } = options;
  const tasks = new TaskGroup();
  const { log = silentLogger() } = options;
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
      routers: options.routers,
      beforeStart: options.beforeStart ?? (async () => undefined),
      note: options.note ?? (() => undefined),
      isLogShipped: () => true,
      mayStartSingletons: options.mayStartSingletons ?? (() => true),
      endings: options.endings,
      isEngineHung: options.isEngineHung ?? (() => false),
      standing,
      log,
    },
    tasks,
  );
  const statusOf = async (job: HostJob) => {
    const entry = await store.get(cellKeys.jobStatus(hostId, job.id));
    return entry === undefined ? undefined : jobStatusSchema.parse(JSON.parse(entry.value));
  };
  return {
    host,
    announcer,
    containers,
    statusOf,
    async assign(jobs, { hasTemplates } = { hasTemplates: true }) {
      const templates = new Map(
        jobs.map((job) => [cellKeys.template(job.workloadId, job.version), JSON.stringify(job.template)]),
      );
      const puts = [...templates].map(([put, value]): Operation => ({ put, value }));
      const value = JSON.stringify({ planId: 'p1', groups: jobs.map(groupOf) });
      await store.transact({
        then: [...(hasTemplates ? puts : []), { put: cellKeys.assignment(hostId, 'p1'), value }],
      });
    },
    reach: (job, what, test, deadlineMs = 60_000) =>
      waitFor(
        async () => {
          const status = await statusOf(job);
          return status !== undefined && test(status) && status;
        },
        { what: `${job.id} to be ${what}`, deadlineMs, intervalMs: 5 },
      ),
    stop: () => tasks.stop(),
  };
}

/** What hosts are opened on: an engine and a store in memory, gone afterwards. */
export async function scenario(
  run: (world: {
    engine: ReturnType<typeof createMemoryEngine>;
    store: ReturnType<typeof createMemoryStore>;
  }) => Promise<void>,
): Promise<void> {
  const engine = createMemoryEngine({ cluster: 'test', images: ['base'] });
  const store = createMemoryStore();
  try {
    await run({ engine, store });
  } finally {
    for (const container of await engine.list()) await engine.remove(container.id);
    await store.close();
  }
}

/** Workload, cause and state of each. */
export async function evaluationsIn(store: Store): Promise<string[][]> {
  const { entries } = await store.list(cellKeys.evaluations);
  return entries.map(({ key, value }) => {
    const { id, workloadId, cause, state } = evaluationSchema.parse(JSON.parse(value));
    if (key !== cellKeys.evaluation(id)) throw new Error(`the evaluation ${id} is at ${key}`);
    return [workloadId, cause, state];
  });
}
