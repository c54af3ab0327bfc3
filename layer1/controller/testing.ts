/** The whole controller in one process: memory store, real scheduler, simulated hosts. For tests of whoever calls it. */
import { createBlobClient } from '@flynn/blobstore/client';
import { Routers, routerService } from '@flynn/discovery/routers';
import type { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import type { RunningServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import type { Logger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { FlynnError } from '@flynn/kit/errors';
import { resourceKey } from '@flynn/resource/keys';
import { startScheduler } from '@flynn/scheduler/scheduler';
import type { HostJob } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import type { Store } from '@flynn/store/store';
import type { z } from 'zod';
import { defaultRate } from './access/rate-limit.ts';
import type { OidcSettings } from './access/oidc.ts';
import type { RateSettings } from './access/rate-limit.ts';
import { apps, deployments, jobs, releases } from './api.ts';
import { createControllerClient } from './client.ts';
import { logAggregatorClient, openController } from './controller.ts';
import { openWeb } from './web.ts';
import type { ControllerWeb } from './web.ts';
import type { Deps } from './deps.ts';
import type { Kind } from './generic/kind.ts';
import type { App, Deployment, Job, Release } from './model.ts';
import type { processSchema } from './processes/process.ts';
import { SimulatedHost } from './testing/simulated-host.ts';
import type { Behaviour } from './testing/simulated-host.ts';
import { runWorker } from './worker.ts';

export type { Behaviour } from './testing/simulated-host.ts';

export type TestControllerOptions = {
  /** Default: a memory store of its own. Closed at the end. */
  store?: Store;
  /** What becomes of jobs, default: all run; one-off jobs too, until their input ends or they are stopped. */
  behave?: (job: HostJob) => Behaviour;
  /** Default 2. */
  hosts?: number;
  memoryBytes?: number;
  /** Of all hosts. */
  hostAddress?: string;
  domain?: string;
  formerDomains?: readonly string[];
  gitUrl?: string;
  gitHostKey?: string;
  /** Without one, reading logs is `unavailable`. */
  logAggregatorUrl?: string;
  /** Without one, moving layers is `unavailable`. Its key is `k`. */
  blobStoreUrl?: string;
  log?: Logger;
  rate?: RateSettings;
  /** A root key that opens as well: while it is made anew. */
  formerKey?: string;
  oidc?: OidcSettings;
  /** Default: yes. */
  keepsRegistryLogins?: boolean;
  /** Of datastores; default: there are none to be had. */
  applianceImages?: Readonly<Record<string, string>>;
  /** Whether a service is announced; default: all are. */
  isServed?: (service: string) => Promise<boolean>;
  /** Whether a worker runs, default true. */
  hasWorker?: boolean;
  /** Whether the worker has the blob store, and makes backups by itself. Default false. */
  backsUp?: boolean;
  /** Beside the platform's own. */
  kinds?: readonly Kind[];
  /** Addresses of the routers there are, asked each time; their key is the cluster key. Default: none. */
  routers?: () => readonly string[];
  /** By which it judges whether requests are still under way. */
  steadyNow?: () => number;
};

export interface TestController extends AsyncDisposable {
  readonly url: string;
  /** The cluster key, which opens what the platform's parts need; `userKey` is the root key, which opens everything. */
  readonly key: string;
  readonly userKey: string;
  readonly client: HttpClient;
  readonly store: Store;
  readonly hosts: readonly SimulatedHost[];
  readonly deps: Deps;
  readonly web: ControllerWeb;
  /** From now on new jobs behave so. */
  setBehaviour(behave: (job: HostJob) => Behaviour): void;
  /** From now on nothing happens that is not asked for. */
  stopWorker(): Promise<void>;
  /** Ends the worker and starts another. */
  restartWorker(): Promise<void>;
  /** An app with a release of an image, deployed. */
  deployApp(
    name: string,
    processes: Record<string, z.input<typeof processSchema>>,
    options?: { isSystem?: boolean },
  ): Promise<{ app: App; release: Release; deployment: Deployment }>;
  /** A release of an image, not deployed. */
  makeRelease(app: string, processes: Record<string, z.input<typeof processSchema>>): Promise<Release>;
  /** Waits until the app has exactly so many jobs of that kind, default: that run. */
  jobsOf(app: string, count: number, isWanted?: (job: Job) => boolean): Promise<Job[]>;
  /** Deploys and waits for the end, whatever it is. */
  deploy(app: string, releaseId: string): Promise<Deployment>;
  /** Waits for the end of a deployment, whatever it is. */
  endOf(deploymentId: string): Promise<Deployment>;
}

/**
 * From now on a deployment under way may go without progress for so long and no longer, whatever its app gives it: what has to
 * come about before has the time it takes.
 */
export async function limitDeployment({ store }: TestController, id: string, timeoutMs: number): Promise<void> {
  const key = resourceKey('deployment', id);
  const write = async (): Promise<boolean> => {
    const entry = await store.get(key);
    if (entry === undefined) throw new FlynnError('not_found', `there is no deployment ${id}`);
    const record = JSON.parse(entry.value) as { spec: object };
    const value = JSON.stringify({ ...record, spec: { ...record.spec, timeoutMs } });
    const compare = [{ key, modRevision: entry.modRevision }];
    return (await store.transact({ compare, then: [{ put: key, value }] })).succeeded;
  };
  await waitFor(write, { what: `deployment ${id} to have less time`, deadlineMs: 30_000, intervalMs: 5 });
}

const clusterKey = 'test-cluster-key';
const userKey = 'test-user-key';

export async function startTestController(options: TestControllerOptions = {}): Promise<TestController> {
  const { log = silentLogger(), hosts: hostCount = 2, hasWorker = true, backsUp = false } = options;
  let behave = options.behave ?? ((): Behaviour => ({ is: 'run' }));
  const store = options.store ?? createMemoryStore();
  const hosts: SimulatedHost[] = [];
  for (let index = 1; index <= hostCount; index += 1) {
    const { memoryBytes, hostAddress } = options;
    const memory = memoryBytes === undefined ? {} : { memoryBytes };
    const address = hostAddress === undefined ? {} : { address: hostAddress };
    const host = new SimulatedHost({
      store,
      id: `host${index}`,
      key: clusterKey,
      log,
      behave: (job) => behave(job),
      ...memory,
      ...address,
    });
    await host.start();
    hosts.push(host);
  }
  const tasks = new TaskGroup();
  // One on each host, as in a cluster: a workload is planned by the one it falls to.
  const schedulers = await Promise.all(hosts.map(({ id }) => startScheduler({ store, log, signal: tasks.signal, id })));
  const settings = {
    name: 'test',
    domain: options.domain ?? 'flynn.localhost',
    formerDomains: options.formerDomains ?? [],
    gitUrl: options.gitUrl ?? 'ssh://git@flynn.localhost:2222',
    ...(options.gitHostKey === undefined ? {} : { gitHostKey: options.gitHostKey }),
    httpPort: 80,
    httpsPort: 443,
    slugRunnerImage: 'flynn/slug-runner',
    version: '0.0.0-test',
    keepsRegistryLogins: options.keepsRegistryLogins ?? true,
    ...(options.applianceImages === undefined ? {} : { applianceImages: options.applianceImages }),
    ...(options.oidc === undefined ? {} : { oidc: options.oidc }),
  };
  const routerAt = (address: string) => ({
    id: address.replaceAll(':', '-'),
    service: routerService,
    address,
    attributes: {},
    createdRevision: 1,
  });
  const instances = async () => (options.routers?.() ?? []).map(routerAt);
  const routers = new Routers({ instances, key: clusterKey, log });
  const { isServed = async () => true } = options;
  const kinds = options.kinds ?? [];
  const controller = await openController({ store, settings, clusterKey, log, kinds, routers, isServed });
  const logAggregator = logAggregatorClient({
    key: clusterKey,
    async baseUrl() {
      if (options.logAggregatorUrl !== undefined) return options.logAggregatorUrl;
      throw new FlynnError('unavailable', 'no log aggregator is running');
    },
  });
  const blobs = createBlobClient({
    key: 'k',
    async baseUrl() {
      if (options.blobStoreUrl !== undefined) return options.blobStoreUrl;
      throw new FlynnError('unavailable', 'no blob store is running');
    },
  });
  const web = await openWeb({
    deps: controller.deps,
    store,
    logAggregator,
    blobs,
    rootKeys: options.formerKey === undefined ? [userKey] : [userKey, options.formerKey],
    clusterKey,
    rate: options.rate ?? defaultRate,
    steadyNow: options.steadyNow,
  });
  const server: RunningServer = await startServer({
    name: 'controller',
    handlers: web.handlers,
    gate: web.gate,
    elsewhere: web.elsewhere,
    isStrict: true,
    host: '127.0.0.1',
    port: 0,
    log,
  });
  let worker = new TaskGroup();
  const startWorker = () =>
    worker.run('worker', (signal) => runWorker(controller.deps, signal, backsUp ? blobs : undefined));
  if (hasWorker) startWorker();
  const client = createControllerClient({ baseUrl: server.url, key: userKey });

  async function makeRelease(app: string, processes: Record<string, z.input<typeof processSchema>>): Promise<Release> {
    const artifact = await client.call(releases.createArtifact, {
      body: { type: 'image', image: { name: 'test/image' } },
    });
    return client.call(releases.create, { params: { app }, body: { artifactId: artifact.id, processes } });
  }

  async function deploy(app: string, releaseId: string): Promise<Deployment> {
    const { id } = await client.call(deployments.create, { params: { app }, body: { releaseId } });
    return endOf(id);
  }

  async function endOf(id: string): Promise<Deployment> {
    return waitFor(
      async () => {
        const deployment = await client.call(deployments.get, { params: { deployment: id } });
        return deployment.endedAt === undefined ? undefined : deployment;
      },
      { what: `the end of deployment ${id}`, deadlineMs: 60_000, intervalMs: 10 },
    );
  }

  return {
    url: server.url,
    key: clusterKey,
    userKey,
    client,
    store,
    hosts,
    deps: controller.deps,
    web,
    setBehaviour(next) {
      behave = next;
    },
    stopWorker: () => worker.stop(),
    async restartWorker() {
      await worker.stop();
      worker = new TaskGroup();
      startWorker();
    },
    makeRelease,
    deploy,
    endOf,
    jobsOf: (app, count, isWanted = ({ state }) => state === 'running') =>
      waitFor(
        async () => {
          const found = (await client.call(jobs.list, { params: { app } })).filter(isWanted);
          return found.length === count ? found : undefined;
        },
        { what: `${count} jobs of ${app}`, deadlineMs: 30_000, intervalMs: 5 },
      ),
    async deployApp(name, processes, { isSystem = false } = {}) {
      await client.call(apps.create, { body: { name, isSystem } });
      const release = await makeRelease(name, processes);
      const deployment = await deploy(name, release.id);
      return { app: await client.call(apps.get, { params: { app: name } }), release, deployment };
    },
    async [Symbol.asyncDispose]() {
      await client.close();
      controller.deps.dispatch.close();
      await server.close();
      await worker.stop();
      await logAggregator.close();
      await web[Symbol.asyncDispose]();
      await blobs.close();
      await routers[Symbol.asyncDispose]();
      await controller[Symbol.asyncDispose]();
      for (const scheduler of schedulers) await scheduler[Symbol.asyncDispose]();
      await tasks.stop();
      for (const host of hosts) await host[Symbol.asyncDispose]();
      await store.close();
    },
  };
}
