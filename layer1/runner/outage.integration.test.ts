/** The store is away for ten seconds in the middle of everything people wait for. Real etcd, a real runner, simulated hosts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { apps, deployments, jobs, releases } from '@flynn/controller/api';
import { operations } from '@flynn/controller/operations/api';
import { serviceToken } from '@flynn/controller/access/service-token';
import { createControllerClient } from '@flynn/controller/client';
import { crons } from '@flynn/controller/cron/api';
import type { BuildResult, Operation } from '@flynn/controller/model';
import { operationIdOf } from '@flynn/controller/operations/queue';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { startTestController } from '@flynn/controller/testing';
import { startTestStore } from '@flynn/controller/testing/store';
import type { TestController } from '@flynn/controller/testing';
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { loadConfig } from '@flynn/kit/config';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { configSchema, identityOf } from './config.ts';
import { controllerEnv } from './controller-env.ts';
import { EnvWatch } from './env-watch.ts';
import { Reports } from './reports.ts';
import { runOperations } from './runner.ts';

const outageMs = 10_000;
const deadlineMs = 90_000;
const names = ['building', 'releasing', 'deploying', 'running', 'ticking'] as const;

type World = { controller: TestController; blobs: Awaited<ReturnType<typeof startTestBlobs>>['blobs'] };

/** A push whose build leaves a result. */
async function push({ controller, blobs }: World, app: string, pushId = app): Promise<Operation[]> {
  const layer = await blobs.put(`layer of ${app}`);
  const result: BuildResult = {
    layers: [layer],
    sizeBytes: layer.sizeBytes,
    processTypes: { web: 'serve' },
    buildpack: app,
    meta: {},
  };
  const { id } = await controller.client.call(apps.get, { params: { app } });
  await blobs.putName(`builds/${operationIdOf(id, pushId, 'build')}`, (await blobs.put(JSON.stringify(result))).digest);
  const { digest } = await blobs.put(`source of ${app}`);
  const body = { pushId, sourceDigest: digest, commit: 'c0ffee', branch: 'main' };
  return controller.client.call(operations.push, { params: { app }, body });
}

/** Its results of the app `releasing` are not to be read before `opening` resolves: until then its release is under way. */
function startRunner(
  t: TestContext,
  { controller, blobs }: World,
  gate: { opening: Promise<void>; isReached: () => void },
) {
  const stopping = new AbortController();
  const client = createControllerClient({ baseUrl: controller.url, key: serviceToken(controller.userKey, 'runner') });
  const identity = identityOf(loadConfig(configSchema, { FLYNN_KEY: controller.key, FLYNN_RUNNER_SLOTS: '8' }));
  const gated = {
    put: blobs.put.bind(blobs),
    getName: blobs.getName.bind(blobs),
    stat: blobs.stat.bind(blobs),
    async get(...args: Parameters<typeof blobs.get>) {
      const body = await blobs.get(...args);
      const bytes = Buffer.concat(await body.toArray());
      if (bytes.includes('"buildpack":"releasing"')) {
        gate.isReached();
        await gate.opening;
      }
      return blobs.get(...args);
    },
  };
  const deps = {
    identity,
    controller: client,
    reports: new Reports(client, identity),
    blobs: gated,
    env: new EnvWatch({ original: {}, source: controllerEnv(client, identity), log: silentLogger() }),
    log: silentLogger(),
  };
  const ended = runOperations(
    { ...deps, ownRegistries: { plain: [], only: undefined }, slugRunnerImage: 'flynn/slug-runner', lookMs: 200 },
    stopping.signal,
  );
  t.after(async () => {
    stopping.abort();
    await ended;
    await client.close();
  });
}

type Etcd = Awaited<ReturnType<typeof startTestStore>>['etcd'];

/** A killed store refuses connections; a frozen one takes them, and whatever is sent, and answers nothing. */
const outages = {
  killed: { begin: (etcd: Etcd) => etcd.kill(), end: (etcd: Etcd) => etcd.start() },
  frozen: { begin: (etcd: Etcd) => etcd.freeze(), end: (etcd: Etcd) => etcd.thaw() },
} as const;

for (const [what, outage] of Object.entries(outages)) {
  const title = `etcd is ${what} for ten seconds in the middle of a build, a release, a deployment, a run and a line of cron`;
  test(title, { timeout: 280_000 }, async (t) => {
    const { etcd, store } = await startTestStore();
    await using _etcd = etcd;
    await using blobStore = await startTestBlobs();
    await using controller = await startTestController({ store });
    const world: World = { controller, blobs: blobStore.blobs };
    const { client } = controller;
    await controller.deployApp('slug-builder', { build: { command: ['build'] } }, { isSystem: true });
    for (const name of names) await client.call(apps.create, { body: { name } });
    const appIds = new Map((await client.call(apps.list, {})).map(({ id, name }) => [name, id]));
    const nameOf = (id = '') => [...appIds].find(([, appId]) => appId === id)?.[0] ?? '';
    // Builds are through at once, but for that of `building`; old jobs of `deploying`, runs and crons go on until they are ended.
    controller.setBehaviour(({ template: { meta } }) => {
      const name = nameOf(meta['flynn.app']);
      const type = meta['flynn.type'];
      if (type === 'build') return name === 'building' ? { is: 'run' } : { is: 'exit', code: 0 };
      return { is: 'run', lingers: name === 'deploying' };
    });
    const opening = Promise.withResolvers<void>();
    const reached = Promise.withResolvers<void>();
    startRunner(t, world, { opening: opening.promise, isReached: reached.resolve });
    const stateOf = async (id = '') => (await client.call(operations.get, { params: { operation: id } })).state;
    const endJobs = async (
      isWanted: (job: { workloadId: string; state: string; meta: Readonly<Record<string, string>> }) => boolean,
    ) => {
      for (const host of controller.hosts)
        for (const job of host.statuses()) if (!job.isFinal && isWanted(job)) await host.end(job.id, 0);
    };
    // Of the one that is deployed jobs end when they are asked to, whenever that is.
    const endAsked = () =>
      endJobs(({ state, meta }) => state === 'stopping' && nameOf(meta['flynn.app']) === 'deploying');
    const endOf = (id = '', meanwhile: () => Promise<void> = async () => {}) =>
      waitFor(
        async () => {
          await meanwhile();
          return ['complete', 'failed', 'cancelled'].includes(await stateOf(id)) && stateOf(id);
        },
        { what: `the end of ${id}`, deadlineMs, intervalMs: 50 },
      );

    // Everything that runs something has a release first.
    for (const name of ['deploying', 'running', 'ticking'] as const) {
      const chain = await push(world, name, `first-${name}`);
      assert.equal(await endOf(chain[2]?.id), 'complete', name);
    }
    const cron = [{ schedule: '0 3 1 1 *', timezone: 'UTC', command: 'tick', overlap: 'forbid' as const }];
    const ticking = await client.call(releases.create, { params: { app: 'ticking' }, body: { cron } });
    await controller.deploy('ticking', ticking.id);
    const lines = () => client.call(crons.list, { params: { app: 'ticking' } });
    const [line] = await waitFor(async () => (await lines()).length > 0 && lines(), { what: 'the line', deadlineMs });
    const cronParams = { app: 'ticking', cron: line?.id ?? '' };

    // Each in the middle of what it does.
    const building = await push(world, 'building');
    const releasing = await push(world, 'releasing');
    const deploying = await push(world, 'deploying');
    const run = await client.call(jobs.run, { params: { app: 'running' }, body: { command: ['work'] } });
    await client.call(crons.run, { params: cronParams });
    await reached.promise;
    const isUp = (workloadId: string) =>
      controller.hosts.some((host) =>
        host.statuses().some((job) => job.workloadId === workloadId && job.state === 'running'),
      );
    const buildId = `${appIds.get('building')}-build-${building[0]?.id}`;
    const cronJob = async () => (await lines())[0]?.runs[0]?.workloadId ?? 'none';
    await waitFor(async () => isUp(buildId) && isUp(run.workloadId) && isUp(await cronJob()), {
      what: 'the jobs',
      deadlineMs,
    });
    // Its old job goes on after it is told to stop: until then the deployment is under way, whether or not it is live.
    const replacing = async () => {
      const all = await client.call(deployments.list, { params: { app: 'deploying' } });
      return all.find(({ oldReleaseId }) => oldReleaseId !== undefined);
    };
    const begun = await waitFor(replacing, { what: 'the deployment', deadlineMs });
    assert.equal(begun.endedAt, undefined, begun.error);

    await outage.begin(etcd);
    const begunMs = performance.now();
    // What is asked for meanwhile is refused in words, or waits; and the release goes on into the outage.
    opening.resolve();
    const asked: [string, Promise<unknown>][] = [
      ['push', push(world, 'running', 'meanwhile')],
      ['run', client.call(jobs.run, { params: { app: 'running' }, body: { command: ['more'] } })],
      ['cron', client.call(crons.run, { params: cronParams })],
      ['deploy', client.call(deployments.create, { params: { app: 'running' }, body: { releaseId: 'v1' } })],
      ['release', client.call(releases.create, { params: { app: 'running' }, body: { env: { A: '1' } } })],
    ];
    const outcomes = Promise.all(
      asked.map(async ([what, answer]) => {
        const error: unknown = await answer.then(
          () => undefined,
          (reason: unknown) => reason,
        );
        return { what, error };
      }),
    );
    await systemClock.sleep(Math.max(0, outageMs - (performance.now() - begunMs)));
    await outage.end(etcd);
    for (const { what, error } of await outcomes) {
      if (error === undefined) continue;
      assert.ok(
        error instanceof FlynnError && hasCode(error, 'unavailable', 'timeout', 'conflict'),
        `${what} failed otherwise than by the store being away`,
      );
      assert.ok(error.message.length > 10, `${what}: ${error.message}`);
    }

    // Each goes on where it was.
    await endJobs((job) => job.workloadId === buildId || job.workloadId === run.workloadId);
    await endJobs(({ meta }) => nameOf(meta['flynn.app']) === 'ticking' && meta['flynn.type'] === 'cron');
    for (const [what, chain] of Object.entries({ building, releasing, deploying })) {
      for (const { id, kind } of chain) {
        const state = await endOf(id, endAsked);
        const { error } = await client.call(operations.get, { params: { operation: id } });
        assert.equal(state, 'complete', `${what}: the ${kind} is ${state}: ${error}`);
      }
    }
    const again = await push(world, 'running', 'meanwhile');
    assert.equal(await endOf(again[2]?.id), 'complete', 'asked again it is the same push');
    const ended = await waitFor(
      async () => {
        const found = await client.call(jobs.get, { params: { app: 'running', job: run.workloadId } });
        return found.endedAt === undefined ? undefined : found;
      },
      { what: 'the end of the run', deadlineMs },
    );
    assert.equal(ended.state, 'done');
    await waitFor(async () => (await lines())[0]?.runs.every(({ state }) => state === 'done'), {
      what: 'the cron',
      deadlineMs,
    });

    // Nothing half-made stays.
    const left = async () => {
      const prefixes = ['/flynn/operation-lock/', '/flynn/resource/operation/'];
      return (await Promise.all(prefixes.map((prefix) => store.list(prefix)))).flatMap(({ entries }) => entries);
    };
    await waitFor(async () => (await left()).length === 0, { what: 'no operation to be left', deadlineMs });
    for (const name of names) {
      const app = await client.call(apps.get, { params: { app: name } });
      assert.equal(app.releaseId === undefined, false, `${name} runs`);
      const all = await client.call(releases.list, { params: { app: name } });
      const versions = all.map(({ version }) => version);
      assert.deepEqual(
        versions,
        Array.from(versions, (_, index) => versions.length - index),
        `${name}: ${versions.join()}`,
      );
      const builds = (await client.call(operations.list, { params: { app: name } })).filter(
        ({ kind }) => kind === 'build',
      );
      assert.equal(new Set(builds.map(({ id }) => id)).size, builds.length);
      const isOver = async () => {
        await endAsked();
        const all = await client.call(deployments.list, { params: { app: name } });
        return all.every(({ endedAt }) => endedAt !== undefined);
      };
      await waitFor(isOver, { what: `the end of ${name}'s deployments`, deadlineMs });
    }
  });
}
