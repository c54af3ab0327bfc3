import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, deployments, formations, releases } from '@flynn/controller/api';
import { routing } from '@flynn/controller/routes/api';
import { type Deployment, processSchema } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import type { SystemApp } from './manifest.ts';
import { Platform, nextEnv } from './platform.ts';

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

test('a variable that another version’s manifest gave goes with it; what people set stays', () => {
  const before = { env: { FLYNN_KEY: 'k', FLYNN_NEW: '1', FLYNN_LOG_APP_MB: '9' }, given: ['FLYNN_KEY', 'FLYNN_NEW'] };
  const env = nextEnv({ ...appNamed('log-aggregator'), env: { FLYNN_KEY: 'k2' } }, before);
  assert.deepEqual(env, { FLYNN_KEY: 'k2', FLYNN_LOG_APP_MB: '9' });
});

/** A controller whose router is what the manifest says; its newest deployment is as `look` says, asked again and again. */
function liveController(look: () => Deployment['state'], releaseList: Record<string, Record<string, string>> = {}) {
  const removed: string[] = [];
  let conflicts = 1;
  const release = (id: string, env: Record<string, string>) => {
    const processes = { web: processSchema.parse(appNamed('router').processes['web']) };
    return { id, appId: 'router', version: 1, artifactId: 'artifact', env, processes, meta: {}, createdAt };
  };
  const deployment = (): Deployment => ({
    id: 'd1',
    appId: 'router',
    newReleaseId: 'live',
    state: look(),
    createdAt,
    error: 'it was told to',
    progress: { web: { wanted: 1, up: 1, old: 1 } },
  });
  const handlers = [
    handle(apps.get, async ({ params: { app: id } }) => {
      return { id, name: id, meta: {}, isSystem: true, releaseId: 'live', deployTimeoutMs: 1, createdAt, updatedAt };
    }),
    handle(routing.list, async () => []),
    handle(releases.get, async () => release('live', {})),
    handle(releases.getArtifact, async () => {
      return { id: 'artifact', type: 'image' as const, image: { name: 'flynn/router:1' }, meta: {}, createdAt };
    }),
    handle(deployments.list, async ({ query }) => (query.limit === 1 ? [deployment()] : [])),
    handle(deployments.get, async () => deployment()),
    handle(releases.list, async () => Object.entries(releaseList).map(([id, env]) => release(id, env))),
    handle(releases.remove, async ({ params }) => {
      if (params.release === 'gone') throw new FlynnError('not_found', 'it was removed');
      if ((conflicts -= 1) >= 0) throw new FlynnError('conflict', 'the app was changed');
      removed.push(params.release);
    }),
  ];
  return { handlers, removed };
}

test('what is live already is done once the release of before has ended, whoever began that', async () => {
  const states: Deployment['state'][] = ['finishing', 'finishing', 'complete'];
  const asked: string[] = [];
  const { handlers } = liveController(() => {
    const state = states.shift() ?? 'complete';
    asked.push(state);
    return state;
  });
  await using controller = await startLoopback(handlers);
  assert.equal(await new Platform(controller.client).ensureApp(appNamed('router'), () => {}), 'unchanged');
  assert.deepEqual(asked, ['finishing', 'finishing', 'complete']);

  const failing: Deployment['state'][] = ['finishing'];
  await using other = await startLoopback(liveController(() => failing.shift() ?? 'failed').handlers);
  await assert.rejects(
    new Platform(other.client).ensureApp(appNamed('router'), () => {}),
    /deploying router failed: it was told to/,
  );
});

test('releases that nobody is to go back to are removed, though the app is written at the same moment', async () => {
  const env = { KEY: 'former' };
  const { handlers, removed } = liveController(() => 'complete', { live: { KEY: 'new' }, gone: env, a: env, b: {} });
  await using controller = await startLoopback(handlers);
  await new Platform(controller.client).removeReleases('router', ({ KEY: key }) => key !== 'new');
  assert.deepEqual(removed, ['a', 'b']);
});
