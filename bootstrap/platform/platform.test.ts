import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, deployments, formations, releases } from '@flynn/controller/api';
import { overtaken } from '@flynn/controller/releases/overtaken';
import { routing } from '@flynn/controller/routes/api';
import type { Deployment } from '@flynn/controller/model';
import { processSchema } from '@flynn/controller/processes/process';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { startTestController } from '@flynn/controller/testing';
import type { SystemApp } from './manifest.ts';
import { givenBy, lastGiven, nextEnv } from './part.ts';
import { Platform } from './platform.ts';

const createdAt = new Date(0).toISOString();
const updatedAt = createdAt;

function appNamed(name: string): SystemApp {
  const processes = { web: { memoryBytes: 1024 ** 2 } };
  return { name, image: `flynn/${name}:1`, env: {}, processes, counts: { web: 1 }, routes: [] };
}

/** A controller that knows no app yet, whose deployments are as `look` says. */
function controllerWith(look: (app: string) => Partial<Deployment>) {
  const app = (name: string) => {
    const id = name;
    return { id, name, meta: {}, isSystem: true, deployTimeoutMs: 60_000, createdAt, updatedAt };
  };
  const deployment = (name: string): Deployment => ({
    id: name,
    appId: name,
    newReleaseId: `${name}-v1`,
    state: 'running',
    createdAt,
    progress: { web: { wanted: 1, up: 0, old: 0 } },
    ...look(name),
  });
  return startLoopback([
    handle(apps.get, async ({ params }) => {
      throw new FlynnError('not_found', `no app ${params.app}`);
    }),
    handle(apps.create, async ({ body }) => app(body.name ?? '')),
    handle(routing.list, async () => []),
    handle(releases.createArtifact, async ({ body }) => ({ ...body, id: 'artifact', createdAt })),
    handle(releases.create, async ({ params, body }) => ({
      id: `${params.app}-v1`,
      appId: params.app,
      version: 1,
      env: {},
      meta: {},
      createdAt,
      processes: Object.fromEntries(
        Object.entries(body.processes ?? {}).map(([type, process]) => [type, processSchema.parse(process)]),
      ),
    })),
    handle(formations.put, async ({ params, body }) => ({
      appId: params.app,
      releaseId: params.release,
      processes: body.processes,
      createdAt,
      updatedAt,
    })),
    handle(deployments.create, async ({ params }) => deployment(params.app)),
    handle(deployments.get, async ({ params }) => deployment(params.deployment)),
  ]);
}

test('services are deployed at once, and who is waited for is told', async () => {
  await using controller = await controllerWith(() => ({ state: 'complete' }));
  const lines: string[] = [];
  const services = ['router', 'blobstore'].map(appNamed);
  const outcomes = await new Platform(controller.client).ensureApps(services, (line) => lines.push(line));
  assert.deepEqual(outcomes, ['created', 'created']);
  assert.ok(lines.includes('deploying router') && lines.includes('deploying blobstore'));
  assert.ok(lines.some((line) => /^waiting for (router|blobstore)$/.test(line)));
});

test('the first service that fails to deploy ends the wait for all, and is told by name with its last lines', async () => {
  const failed: Partial<Deployment> = {
    state: 'failed',
    error: 'web crashed three times',
    failedJob: { id: 'host-1', type: 'web', exitCode: 7, lines: ['starting', 'FLYNN_KEY is missing'] },
  };
  // The others never end.
  await using controller = await controllerWith((app) => (app === 'runner' ? failed : {}));
  const platform = new Platform(controller.client, { signal: AbortSignal.timeout(60_000) });
  await assert.rejects(
    platform.ensureApps(['router', 'runner', 'blobstore'].map(appNamed), () => {}),
    (error: unknown) => {
      assert.ok(error instanceof FlynnError && error.code === 'internal', String(error));
      assert.match(error.message, /^deploying runner failed: web crashed three times\n/);
      assert.match(error.message, /last lines \(exit code 7\):\n {4}starting\n {4}FLYNN_KEY is missing\n/);
      assert.match(error.message, /flynn -a runner log/);
      return true;
    },
  );
});

test('what an interrupted command left under way is waited for: what it makes live is not taken for what was live before', async () => {
  const wanted = appNamed('router');
  let releaseId = 'before';
  const deployed: string[] = [];
  const ended = new Set<string>();
  const deployment = (id: string): Deployment => ({
    id,
    appId: 'router',
    newReleaseId: id,
    state: ended.has(id) ? 'complete' : 'running',
    createdAt,
    progress: {},
  });
  const processes = { web: processSchema.parse(wanted.processes['web']) };
  const release = (id: string) => ({
    id,
    appId: 'router',
    artifactId: id,
    version: 1,
    env: {},
    meta: {},
    createdAt,
    processes,
  });
  await using controller = await startLoopback([
    handle(apps.get, async () => {
      const app = {
        id: 'router',
        name: 'router',
        meta: {},
        isSystem: true,
        deployTimeoutMs: 60_000,
        createdAt,
        updatedAt,
      };
      return { ...app, releaseId };
    }),
    handle(routing.list, async () => []),
    handle(deployments.list, async () => [deployment('interrupted')]),
    handle(deployments.get, async ({ params }) => {
      releaseId = params.deployment;
      ended.add(releaseId);
      return deployment(params.deployment);
    }),
    handle(deployments.create, async ({ body }) => {
      deployed.push(body.releaseId);
      return deployment(body.releaseId);
    }),
    handle(releases.get, async ({ params }) => release(params.release)),
    handle(releases.list, async () => []),
    handle(releases.create, async () => release('again')),
    handle(releases.createArtifact, async ({ body }) => ({ ...body, id: 'again', createdAt })),
    handle(releases.getArtifact, async ({ params }) => {
      const name = params.artifact === 'interrupted' ? 'flynn/router:sick' : wanted.image;
      return { id: params.artifact, type: 'image' as const, image: { name }, meta: {}, createdAt };
    }),
  ]);
  const lines: string[] = [];
  assert.equal(await new Platform(controller.client).ensureApp(wanted, (line) => lines.push(line)), 'updated');
  assert.deepEqual(lines, ['waiting for an earlier deployment of router', 'updating router']);
  assert.deepEqual(deployed, ['again']);
  assert.equal(await new Platform(controller.client).ensureApp(wanted, () => {}), 'unchanged');
});

test('what people set while a part is updated is not taken back: the update begins again with it', async () => {
  const wanted = appNamed('router');
  let live = 'before';
  const made: { env: Readonly<Record<string, string>> }[] = [];
  const deployment = (id: string): Deployment => ({
    id,
    appId: 'router',
    newReleaseId: id,
    state: 'complete',
    createdAt,
    progress: {},
  });
  const release = (id: string) => ({
    id,
    appId: 'router',
    artifactId: id,
    version: 1,
    meta: {},
    createdAt,
    processes: {},
  });
  const envs: Readonly<Record<string, Record<string, string>>> = { set: { SET_BY: 'people' } };
  const replaced: (string | null | undefined)[] = [];
  await using controller = await startLoopback([
    handle(apps.get, async () => {
      const app = { id: 'router', name: 'router', meta: {}, isSystem: true, deployTimeoutMs: 60_000 };
      return { ...app, createdAt, updatedAt: createdAt, releaseId: live };
    }),
    handle(routing.list, async () => []),
    handle(deployments.list, async () => []),
    handle(deployments.get, async ({ params }) => deployment(params.deployment)),
    handle(deployments.create, async ({ body }) => {
      replaced.push(body.replaces);
      if (body.replaces !== 'before') return deployment(body.releaseId);
      live = 'set';
      throw overtaken('router');
    }),
    handle(releases.get, async ({ params }) => ({
      ...release(params.release),
      env: envs[params.release] ?? {},
    })),
    handle(releases.list, async () => []),
    handle(releases.create, async ({ body }) => {
      made.push({ env: body.env ?? {} });
      return { ...release('again'), env: {} };
    }),
    handle(releases.createArtifact, async ({ body }) => ({ ...body, id: 'again', createdAt })),
    handle(releases.getArtifact, async ({ params }) => {
      const image = { name: 'flynn/router:old' };
      return { id: params.artifact, type: 'image' as const, image, meta: {}, createdAt };
    }),
  ]);
  assert.equal(await new Platform(controller.client).ensureApp(wanted, () => {}), 'updated');
  assert.deepEqual(replaced, ['before', 'set']);
  assert.equal(made.at(-1)?.env['SET_BY'], 'people');
});

test('a variable that another version’s manifest gave goes with it; what people set stays', () => {
  const before = { env: { FLYNN_KEY: 'k', FLYNN_NEW: '1', FLYNN_LOG_APP_MB: '9' }, given: ['FLYNN_KEY', 'FLYNN_NEW'] };
  const env = nextEnv({ ...appNamed('log-aggregator'), env: { FLYNN_KEY: 'k2' } }, before);
  assert.deepEqual(env, { FLYNN_KEY: 'k2', FLYNN_LOG_APP_MB: '9' });
});

/** A controller that has these releases of its app, by their id; the first removal finds the app changed. */
function controllerOf(all: Readonly<Record<string, Record<string, string>>>) {
  const removed: string[] = [];
  let conflicts = 1;
  const handlers = [
    handle(releases.list, async () =>
      Object.entries(all).map(([id, env]) => ({
        id,
        appId: 'router',
        version: 1,
        env,
        references: {},
        processes: {},
        meta: {},
        createdAt,
      })),
    ),
    handle(releases.remove, async ({ params }) => {
      if (params.release === 'gone') throw new FlynnError('not_found', 'it was removed');
      if ((conflicts -= 1) >= 0) throw new FlynnError('conflict', 'the app was changed');
      removed.push(params.release);
    }),
  ];
  return { handlers, removed };
}

test('releases that nobody is to go back to are removed, though the app is written at the same moment', async () => {
  const env = { KEY: 'former' };
  const { handlers, removed } = controllerOf({ live: { KEY: 'new' }, gone: env, a: env, b: {} });
  await using controller = await startLoopback(handlers);
  await new Platform(controller.client).removeReleases('router', ({ KEY: key }) => key !== 'new');
  assert.deepEqual(removed, ['a', 'b']);
});

test('what people let a part take, and where they let it be, stays through an update; all else is as the manifest says', async () => {
  await using world = await startTestController();
  const platform = new Platform(world.client);
  const told = (): void => {};
  const params = { app: 'log-aggregator' };
  const mebibyte = 1024 ** 2;
  const first: SystemApp = {
    ...appNamed('log-aggregator'),
    processes: { web: { memoryBytes: 256 * mebibyte, cpuMillis: 500, command: ['one'] } },
  };
  assert.equal(await platform.ensureApp(first, told), 'created');
  const read = async () => {
    const { releaseId = '' } = await world.client.call(apps.get, { params });
    return world.client.call(releases.get, { params: { ...params, release: releaseId } });
  };
  const made = await read();
  // As the CLI changes a release.
  const constraints = [{ attribute: 'disk', operator: 'missing' as const }];
  const own = { ...processSchema.parse(made.processes['web']), memoryBytes: 1024 * mebibyte, constraints };
  const body = { artifactId: made.artifactId ?? '', env: made.env, meta: made.meta, processes: { web: own } };
  await world.deploy(params.app, (await world.client.call(releases.create, { params, body })).id);
  assert.equal(await platform.ensureApp(first, told), 'unchanged');

  const web = { memoryBytes: 320 * mebibyte, cpuMillis: 750, command: ['two'] };
  const second: SystemApp = { ...first, image: 'flynn/log-aggregator:2', processes: { web, compactor: {} } };
  assert.equal(await platform.ensureApp(second, told), 'updated');
  const after = await read();
  assert.deepEqual(after.processes, {
    web: processSchema.parse({ ...web, memoryBytes: 1024 * mebibyte, constraints }),
    compactor: processSchema.parse({}),
  });
  assert.equal(await platform.ensureApp(second, told), 'unchanged');
  assert.deepEqual(lastGiven([after]), givenBy(second), 'and that is told from what the manifest gave');
});

test('of a version that did not write down what it gave, the first release of an image tells', () => {
  const meta = { 'flynn.manifest.variables': 'FLYNN_KEY' };
  const release = (artifactId: string, memoryBytes: number) => {
    return { artifactId, meta, processes: { web: processSchema.parse({ memoryBytes }) } };
  };
  const all = [release('b', 3), release('b', 2), release('a', 1)];
  assert.equal(lastGiven(all).limits?.['web']?.memoryBytes, 2);
  assert.deepEqual(lastGiven([{ ...release('a', 1), meta: {} }]), { variables: [], limits: undefined });
});
