/** What is followed over a connection that does not last. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, deployments, releases } from '@flynn/controller/api';
import { platform } from '@flynn/controller/platform/api';
import { rolloutSchema } from '@flynn/controller/deployments/rollout-settings';
import type { App, Deployment, Job, Release } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { saveClusters } from './clusters/clusters.ts';
import { type JobChange, JobWatch } from './deployments/job-watch.ts';
import { Desk, quickClock } from './testing.ts';

const createdAt = '2026-01-01T00:00:00Z';

const job = (id: string, state: Job['state'], releaseId = 'live'): Job => ({
  id,
  workloadId: 'web',
  appId: 'app',
  releaseId,
  type: 'web',
  state,
  restarts: 0,
  createdAt,
});

const put = (one: Job) => ({ event: 'job', data: { type: 'put', id: one.id, appId: 'app', object: one } });
const current = { event: 'current', data: { type: 'put', id: 'current' } };

test('a watch whose stream breaks opens another and tells what changed meanwhile, once', async () => {
  const streams = [
    [put(job('a', 'running')), put(job('b', 'starting')), put(job('x', 'starting', 'other')), current],
    [put(job('b', 'starting')), current, put(job('x', 'running', 'other')), put(job('b', 'running'))],
    [put(job('b', 'running')), put(job('c', 'running')), current],
  ];
  let opened = 0;
  await using loopback = await startLoopback([
    handle(platform.events, async () => {
      const events = streams[opened] ?? [];
      opened += 1;
      return (async function* () {
        yield* events;
        if (opened < 2) throw new FlynnError('unavailable', 'the controller restarts');
      })();
    }),
  ]);
  const told: JobChange[] = [];
  await using watch = new JobWatch({
    client: loopback.client,
    app: 'app',
    releaseId: 'live',
    signal: AbortSignal.timeout(60_000),
    onChange: (change) => told.push(change),
  });
  await watch.open();
  assert.deepEqual(
    watch.jobs.map(({ id }) => id),
    ['a', 'b'],
  );
  assert.equal(told.length, 0);
  await watch.until((jobs) => jobs.some(({ id, state }) => id === 'c' && state === 'running'));
  assert.equal(opened, 3);
  assert.deepEqual(
    told.map((change) => `${change.job.id} ${change.what}`),
    ['a down', 'b up', 'c up'],
  );
});

test('a watch ends with `timeout` when its time is over, also while the controller is away', async () => {
  await using loopback = await startLoopback([
    handle(platform.events, async () => {
      throw new FlynnError('unavailable', 'not now');
    }),
  ]);
  await using watch = new JobWatch({
    client: loopback.client,
    app: 'app',
    releaseId: 'live',
    signal: AbortSignal.timeout(300),
    onChange: () => undefined,
  });
  await assert.rejects(
    watch.until(() => false),
    { code: 'timeout' },
  );
});

test('an error that waiting does not mend ends a watch', async () => {
  await using loopback = await startLoopback([
    handle(platform.events, async () => {
      throw new FlynnError('not_found', 'there is no app "app"');
    }),
  ]);
  await using watch = new JobWatch({
    client: loopback.client,
    app: 'app',
    releaseId: 'live',
    signal: AbortSignal.timeout(60_000),
    onChange: () => undefined,
  });
  await assert.rejects(
    watch.until(() => false),
    { code: 'not_found' },
  );
});

test('a deployment is followed through a controller that goes away in between', async () => {
  const release = (version: number): Release => ({
    id: `release${version}`,
    appId: 'app',
    version,
    artifactId: 'artifact',
    env: {},
    processes: {},
    meta: {},
    createdAt,
  });
  const app: App = {
    id: 'app',
    name: 'hello',
    meta: {},
    isSystem: false,
    releaseId: 'release1',
    deployTimeoutMs: 60_000,
    createdAt,
    updatedAt: createdAt,
  };
  const deployment = (state: Deployment['state']): Deployment => ({
    id: 'd1',
    appId: 'app',
    oldReleaseId: 'release1',
    newReleaseId: 'release2',
    state,
    progress: {},
    createdAt,
  });
  const asked: string[] = [];
  await using loopback = await startLoopback([
    handle(apps.get, async () => app),
    handle(releases.get, async ({ params }) => release(params.release === 'v2' ? 2 : 1)),
    handle(deployments.create, async () => deployment('pending')),
    handle(deployments.events, async () => {
      asked.push('events');
      const isLast = asked.filter((what) => what === 'events').length === 3;
      return (async function* () {
        yield { event: 'deployment', data: deployment(isLast ? 'complete' : 'running') };
        if (!isLast) throw new FlynnError('unavailable', 'the controller restarts');
      })();
    }),
    handle(deployments.get, async () => {
      asked.push('get');
      return deployment('complete');
    }),
  ]);
  await using desk = await Desk.open();
  await saveClusters(desk.configDirectory, {
    clusters: [{ name: 'x', controllerUrl: loopback.server.url, key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 }],
  });
  const { code, stdout, stderr } = await desk.run(['-a', 'hello', 'rollback', 'v2']);
  assert.equal(code, 0, stderr);
  assert.match(stdout, /^release v2 deployed in/);
  assert.deepEqual(asked, ['events', 'events', 'events']);
});

for (const { end, code: expected } of [
  { end: 'complete', code: 0 },
  { end: 'failed', code: 1 },
] as const) {
  test(`\`deployment follow\` goes on when its stream ends or breaks, and its end is that of the deployment: ${end}`, async () => {
    const deployment = (state: Deployment['state']): Deployment => ({
      id: 'd1',
      appId: 'app',
      newReleaseId: 'release2',
      state,
      progress: {},
      createdAt,
    });
    const up = { event: 'job', data: { id: 'job1', type: 'web', releaseId: 'release2', state: 'up' } };
    const rollout = rolloutSchema.parse({ strategy: 'canary', autoPromoteMs: 60_000 });
    let opened = 0;
    await using loopback = await startLoopback([
      handle(deployments.list, async () => [deployment('running')]),
      handle(releases.list, async () => []),
      handle(deployments.events, async () => {
        opened += 1;
        const attempt = opened;
        return (async function* () {
          // It waits for nobody: it is promoted by itself.
          if (attempt === 1) yield { event: 'deployment', data: { ...deployment('canary'), rollout } };
          yield { event: 'deployment', data: deployment(attempt === 4 ? end : 'running') };
          if (attempt === 2) throw new FlynnError('unavailable', 'the controller restarts');
          if (attempt === 3) yield up;
        })();
      }),
      handle(deployments.get, async () => deployment('running')),
    ]);
    await using desk = await Desk.open();
    await saveClusters(desk.configDirectory, {
      clusters: [{ name: 'x', controllerUrl: loopback.server.url, key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 }],
    });
    const { code, stdout, stderr } = await desk.run(['-a', 'hello', 'deployment', 'follow']);
    assert.equal(code, expected, stderr);
    assert.match(stdout, new RegExp(`web job1 of release2 up\\n${end}\\n.*State: +${end}`, 's'));
    assert.equal(opened, 4);
  });
}

test('who follows a deployment is told that nobody answers any more, and after a minute that it goes on by itself', async () => {
  const running = { id: 'd1', appId: 'app', newReleaseId: 'r2', state: 'running', progress: {}, createdAt } as const;
  const followed = Promise.withResolvers<void>();
  const loopback = await startLoopback([
    handle(deployments.list, async () => [running]),
    handle(releases.list, async () => []),
    handle(deployments.get, async () => running),
    handle(deployments.events, async ({ signal }) =>
      (async function* () {
        yield { event: 'deployment', data: running };
        followed.resolve();
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      })(),
    ),
  ]);
  await using desk = await Desk.open();
  await saveClusters(desk.configDirectory, {
    clusters: [{ name: 'x', controllerUrl: loopback.server.url, key: 'k', gitUrl: 'g', domain: 'd', httpPort: 80 }],
  });
  const following = desk.run(['-a', 'hello', 'deployment', 'follow'], { clock: quickClock() });
  await followed.promise;
  await loopback[Symbol.asyncDispose]();
  const { code, stderr } = await following;
  assert.equal(code, 1);
  assert.match(
    stderr,
    /^the cluster cannot answer just now \([^\n]*\): asking again\nflynn: [^\n]*\n {2}nobody has answered for 1m; the deployment goes on by itself: "flynn deployment info" tells how it ends\n$/,
  );
});
