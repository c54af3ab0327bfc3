/** For tests: a whole controller with simulated hosts, a real blob store, and a runner beside them. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BlobClient, createBlobClient } from '@flynn/blobstore/client';
import { openFilesystem } from '@flynn/blobstore/filesystem';
import { blobHandlers } from '@flynn/blobstore/server';
import { apps } from '@flynn/controller/api';
import { operations } from '@flynn/controller/operations/api';
import { runners } from '@flynn/controller/operations/api-runners';
import { serviceToken } from '@flynn/controller/access/service-token';
import { createControllerClient } from '@flynn/controller/client';
import { type BuildResult, type Operation, operationSchema } from '@flynn/controller/model';
import { type Behaviour, type TestController, startTestController } from '@flynn/controller/testing';
import { loadConfig } from '@flynn/kit/config';
import { startServer } from '@flynn/kit/http-server';
import { type Logger, silentLogger } from '@flynn/kit/log';
import { configSchema, identityOf } from './config.ts';
import { connectOutside } from './connections.ts';
import { controllerEnv } from './controller-env.ts';
import { EnvWatch } from './env-watch.ts';
import { Reports } from './reports.ts';
import { runOperations } from './runner.ts';

type Labels = Record<string, string>;
export type World = AsyncDisposable & { controller: TestController; blobs: BlobClient };

export async function startWorld({ hosts = 2 }: { hosts?: number } = {}): Promise<World> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-runner-'));
  const storage = await openFilesystem(dir, { nowMs: Date.now() });
  const server = await startServer({
    name: 'blobstore',
    handlers: blobHandlers(storage),
    key: 'k',
    port: 0,
    log: silentLogger(),
  });
  const blobs = createBlobClient({ baseUrl: server.url, key: 'k' });
  const controller = await startTestController({ blobStoreUrl: server.url, hosts });
  await controller.deployApp('slug-builder', { build: { command: ['build'] } }, { isSystem: true });
  await controller.client.call(apps.create, { body: { name: 'shop' } });
  return {
    controller,
    blobs,
    async [Symbol.asyncDispose]() {
      await controller[Symbol.asyncDispose]();
      await blobs.close();
      await server.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** What jobs do, by their process type. */
export function behave({ controller }: World, behaviours: Record<string, Behaviour>): void {
  controller.setBehaviour((job) => behaviours[job.template.meta['flynn.type'] ?? ''] ?? { is: 'run' });
}

let pushes = 0;

/** A push whose build will leave this result. */
export async function push({ controller, blobs }: World, result?: Partial<BuildResult>): Promise<Operation[]> {
  pushes += 1;
  const source = await blobs.put(`source ${pushes}`);
  const chain = await controller.client.call(operations.push, {
    params: { app: 'shop' },
    body: { pushId: `push-${pushes}`, sourceDigest: source.digest, commit: 'c0ffee', branch: 'main' },
  });
  if (result !== undefined) {
    const layer = await blobs.put(`layer ${pushes}`);
    const whole: BuildResult = {
      layers: [layer],
      sizeBytes: layer.sizeBytes,
      processTypes: { web: 'node server.js' },
      buildpack: 'nodejs',
      meta: {},
      ...result,
    };
    await blobs.putName(`builds/${chain[0]?.id}`, (await blobs.put(JSON.stringify(whole))).digest);
  }
  return chain;
}

/** One outside of the cluster: all it knows is the controller's address and its own token. */
export async function startOwnRunner(
  { controller }: World,
  {
    id,
    log = silentLogger(),
    ...options
  }: { id: string; log?: Logger; registryConfig?: string; plain?: string[]; only?: string[]; labels?: Labels },
): Promise<AsyncDisposable> {
  const { labels = {}, plain = [], only = [], ...rest } = options;
  const { token } = await controller.client.call(runners.add, { params: { runner: id }, body: { labels } });
  const connections = connectOutside({ is: 'outside', url: controller.url, ca: undefined, id, token });
  const identity = { id, token, labels, isByIdOnly: false, version: '0.0.0-test', slots: 2 };
  const stopping = new AbortController();
  const env = new EnvWatch({ original: {}, source: controllerEnv(connections.controller, identity), log });
  const reports = new Reports(connections.controller, identity);
  const own = {
    identity,
    reports,
    env,
    log,
    ownRegistries: { plain, only },
    slugRunnerImage: 'slug-runner',
    heartbeatMs: 50,
    lookMs: 50,
  };
  const ended = runOperations({ ...own, ...connections, ...rest }, stopping.signal);
  return {
    async [Symbol.asyncDispose]() {
      stopping.abort();
      await ended;
      await connections[Symbol.asyncDispose]();
    },
  };
}

export function startRunner(
  { controller, blobs }: World,
  {
    baseUrl = controller.url,
    env = {},
    ...options
  }: { graceMs?: number; baseUrl?: string | (() => Promise<string>); env?: Record<string, string> } = {},
): AsyncDisposable & { stop(): Promise<void> } {
  const stopping = new AbortController();
  const client = createControllerClient({ baseUrl, key: serviceToken(controller.userKey, 'runner') });
  const identity = identityOf(
    loadConfig(configSchema, { FLYNN_KEY: controller.key, FLYNN_RUNNER_ID: 'runner', ...env }),
  );
  const ended = runOperations(
    {
      identity,
      controller: client,
      reports: new Reports(client, identity),
      blobs,
      ownRegistries: { plain: [], only: undefined },
      env: new EnvWatch({ original: env, source: controllerEnv(client, identity), log: silentLogger() }),
      slugRunnerImage: 'flynn/slug-runner',
      log: silentLogger(),
      heartbeatMs: 50,
      lookMs: 50,
      ...options,
    },
    stopping.signal,
  );
  const stop = async (): Promise<void> => {
    stopping.abort();
    await ended;
    await client.close();
  };
  return { stop, [Symbol.asyncDispose]: stop };
}

/** The log of an operation once it has ended, and how. */
export async function outcome(
  { controller }: World,
  id: string | undefined,
): Promise<{ operation: Operation; lines: string[] }> {
  const lines: string[] = [];
  const params = { operation: id ?? '' };
  for await (const { event, data } of controller.client.events(
    operations.log,
    { params },
    { signal: AbortSignal.timeout(60_000) },
  )) {
    if (event === 'end') return { operation: operationSchema.parse(data), lines };
    if (typeof data === 'object' && data !== null && 'text' in data) lines.push(String(data.text));
  }
  throw new Error(`operation ${id} did not end; its log: ${lines.join('\n')}`);
}
