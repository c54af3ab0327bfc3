/** Operations carried out against a whole controller with simulated hosts, and a real blob store. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createBlobClient } from '@flynn/blobstore/client';
import { apps, deployments, formations, jobs, releases } from '@flynn/controller/api';
import { operations } from '@flynn/controller/operations/api';
import { type AppJson, parseAppJson } from '@flynn/controller/apps/app-json';
import { runners } from '@flynn/controller/operations/api-runners';
import { resultMeta } from '@flynn/controller/images/image-blobs';
import type { Release } from '@flynn/controller/model';
import { logAggregatorClient, openController } from '@flynn/controller/controller';
import { processSchema } from '@flynn/controller/processes/process';
import { openWeb } from '@flynn/controller/web';
import { loadConfig } from '@flynn/kit/config';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { configSchema, identityOf } from './config.ts';
import { behave, outcome, push, startRunner, startWorld } from './runner-fixture.ts';

test('a push is built, released and deployed, and tells the pusher where the app answers', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0, lines: ['-----> Node.js app detected', '       fine'] } });
  const chain = await push(world, { processTypes: { web: 'node server.js', worker: 'node worker.js' } });
  await using _runner = startRunner(world);
  const [build, release, deploy] = await Promise.all(chain.map(({ id }) => outcome(world, id)));
  assert.deepEqual(build?.lines, ['-----> Building shop...', '-----> Node.js app detected', '       fine']);
  assert.equal(build?.operation.state, 'complete');
  assert.deepEqual(release?.lines, ['-----> Creating release...', '       v1 created']);
  assert.equal(deploy?.lines[0], '-----> Deploying v1...');
  assert.ok(deploy?.lines.includes('       web 1/1 up'), deploy?.lines.join('\n'));
  assert.deepEqual(deploy?.lines.slice(-3), [
    '       No jobs yet of worker. To start one of each: flynn scale worker=1',
    '=====> Application deployed',
    '=====> http://shop.flynn.localhost',
  ]);
  const made = await world.controller.client.call(releases.get, { params: { app: 'shop', release: 'v1' } });
  assert.deepEqual(made.processes['web']?.command, ['/usr/bin/flynn-run', 'node server.js']);
  assert.equal(made.meta['git'], 'true');
  assert.equal(made.meta['git.commit'], 'c0ffee');
  assert.equal(made.meta['git.branch'], 'main');
  assert.equal(made.meta['buildpack'], 'nodejs');
});

test('settings of a process type stay when the app is pushed again', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const client = world.controller.client;
  const before = await push(world, {});
  {
    await using _runner = startRunner(world);
    await outcome(world, before[2]?.id);
  }
  const first = await client.call(releases.get, { params: { app: 'shop', release: 'v1' } });
  const web = { ...first.processes['web'], memoryBytes: 77 * 1024 ** 2, volumes: [{ name: 'data', path: '/data' }] };
  const changed = await client.call(releases.create, {
    params: { app: 'shop' },
    body: { processes: { web }, env: { A: '1' } },
  });
  await world.controller.deploy('shop', changed.id);
  const chain = await push(world, { processTypes: { web: 'node other.js' } });
  await using _runner = startRunner(world);
  await outcome(world, chain[2]?.id);
  const last = await client.call(releases.get, { params: { app: 'shop', release: 'v3' } });
  assert.deepEqual(last.processes['web'], { ...web, command: ['/usr/bin/flynn-run', 'node other.js'] });
  assert.deepEqual(last.env, { A: '1' });
});

test('what is being deployed when a build ends is not taken back by the release of that build', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const { controller } = world;
  const { client } = controller;
  const params = { app: 'shop' };
  const first = await push(world, {});
  {
    await using _runner = startRunner(world);
    await outcome(world, first[2]?.id);
  }
  const changed = await client.call(releases.create, {
    params,
    body: { env: { A: '1' }, scripts: { release: 'migrate' } },
  });
  const { releaseJobId } = await client.call(deployments.create, { params, body: { releaseId: changed.id } });
  const [job] = await controller.jobsOf(
    'shop',
    1,
    ({ workloadId, state }) => workloadId === releaseJobId && state === 'running',
  );
  const chain = await push(world, { processTypes: { web: 'node other.js' } });
  await using _runner = startRunner(world);
  const log = { params: { operation: chain[1]?.id ?? '' } };
  for await (const { data } of client.events(operations.log, log, { signal: AbortSignal.timeout(60_000) })) {
    if (JSON.stringify(data).includes('Waiting for another deployment')) break;
  }
  const isKept = async () => {
    const { waitsFor = '' } = await client.call(operations.get, { params: log.params });
    return waitsFor.startsWith('deployment');
  };
  await waitFor(isKept, { what: 'the release to wait for the deployment alone', deadlineMs: 60_000 });
  await controller.hosts.find(({ id }) => id === job?.hostId)?.end(job?.id ?? '', 0);
  const { operation, lines } = await outcome(world, chain[2]?.id);
  assert.equal(operation.state, 'complete', lines.join('\n'));
  // Of a deployment that ends between two looks of the runner there is another release of the build, with all it had.
  const { releaseId = '' } = await client.call(apps.get, { params });
  const live = await client.call(releases.get, { params: { ...params, release: releaseId } });
  assert.deepEqual(live.env, { A: '1' });
  assert.deepEqual(live.processes['web']?.command, ['/usr/bin/flynn-run', 'node other.js']);
});

test('a build that fails fails the push with its output, and nothing after it runs', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 1, lines: [' !     npm ci failed'] } });
  const chain = await push(world);
  await using _runner = startRunner(world);
  const { operation, lines } = await outcome(world, chain[0]?.id);
  assert.deepEqual([operation.state, operation.error], ['failed', 'the build failed (exit code 1)']);
  assert.deepEqual(lines.slice(1), [' !     npm ci failed']);
  assert.equal((await outcome(world, chain[2]?.id)).operation.state, 'cancelled');
});

test('a build that says it is done without a result is a failure', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const chain = await push(world);
  await using _runner = startRunner(world);
  assert.match((await outcome(world, chain[0]?.id)).operation.error ?? '', /left no result/);
});

test('an app that crashes at its start fails the deploy, saying what went wrong', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 }, web: { is: 'crash', code: 3, lines: ['DATABASE_URL is not set'] } });
  const chain = await push(world, {});
  await using _runner = startRunner(world);
  const { operation, lines } = await outcome(world, chain[2]?.id);
  assert.equal(operation.state, 'failed');
  assert.ok(lines.includes('       DATABASE_URL is not set'), lines.join('\n'));
  assert.ok(lines.includes('       the last lines of web:'), lines.join('\n'));
  assert.match(lines.join('\n'), /^ {7}web \(\S+\) ended with exit code 3$/m);
  assert.match(operation.error ?? '', /^a web job of the new release did not stay up/);
  assert.match(lines.at(-1) ?? '', /Nothing of the app runs/);
});

test('the release line runs before the rollout, told as it goes; app.json says how the app begins', async () => {
  await using world = await startWorld();
  behave(world, {
    build: { is: 'exit', code: 0 },
    release: { is: 'exit', code: 0, lines: ['migrating'] },
    postdeploy: { is: 'exit', code: 4 },
  });
  const appJson = parseAppJson(
    JSON.stringify({
      env: { TOKEN: { generator: 'secret' } },
      formation: { worker: { quantity: 2 } },
      cron: [{ schedule: '@daily', command: 'sweep' }],
      scripts: { postdeploy: 'notify' },
    }),
  );
  const processTypes = { web: 'node server.js', worker: 'node worker.js', release: 'migrate' };
  const chain = await push(world, { processTypes, appJson });
  await using _runner = startRunner(world);
  const { operation, lines } = await outcome(world, chain[2]?.id);
  assert.equal(operation.state, 'complete', operation.error);
  assert.ok(lines.indexOf('migrating') > lines.indexOf('-----> Running the release command...'), lines.join('\n'));
  assert.match(lines.join('\n'), /its postdeploy failed: it ended with exit code 4/);
  await world.controller.jobsOf('shop', 3);
  const params = { app: 'shop', release: 'v1' };
  const release = await world.controller.client.call(releases.get, { params });
  assert.deepEqual(Object.keys(release.processes), ['web', 'worker']);
  assert.match(release.env['TOKEN'] ?? '', /^[0-9a-f]{64}$/);
  assert.equal(release.cron?.[0]?.command, 'sweep');
});

test('a release line that fails keeps the old release, and the pusher reads why', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 }, release: { is: 'exit', code: 9, lines: ['no such column'] } });
  const first = await push(world, {});
  const second = await push(world, { processTypes: { web: 'node server.js', release: 'migrate' } });
  await using _runner = startRunner(world);
  assert.equal((await outcome(world, first[2]?.id)).operation.state, 'complete');
  const { operation, lines } = await outcome(world, second[2]?.id);
  assert.match(operation.error ?? '', /^the release command failed: it ended with exit code 9/);
  assert.equal(lines.filter((line) => line.includes('no such column')).length, 1, lines.join('\n'));
  assert.match(lines.at(-1) ?? '', /The release before it keeps running/);
  const [job] = await world.controller.jobsOf('shop', 1);
  const live = await world.controller.client.call(releases.get, { params: { app: 'shop', release: 'v1' } });
  assert.equal(job?.releaseId, live.id);
});

test('cancelling a build stops its job', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'run', lines: ['working'] } });
  const chain = await push(world);
  const id = chain[0]?.id ?? '';
  await using _runner = startRunner(world);
  const params = { app: 'shop' };
  const client = world.controller.client;
  await waitFor(
    async () =>
      (await client.call(jobs.list, { params })).some(({ type, state }) => type === 'build' && state === 'running'),
    {
      what: 'the build to run',
      deadlineMs: 30_000,
    },
  );
  await client.call(operations.cancel, { params: { operation: id } });
  const { operation } = await outcome(world, id);
  assert.equal(operation.state, 'cancelled');
  await waitFor(
    async () =>
      (await client.call(jobs.list, { params })).every(({ type, state }) => type !== 'build' || state === 'done'),
    {
      what: 'the build to stop',
      deadlineMs: 30_000,
    },
  );
});

test('cancelling a push takes its rollout back: the app is as it was before', async () => {
  await using world = await startWorld();
  const { client } = world.controller;
  const params = { app: 'shop' };
  let firstRelease: string | undefined;
  world.controller.setBehaviour(({ template: { meta } }) => {
    if (meta['flynn.type'] === 'build') return { is: 'exit', code: 0 };
    firstRelease ??= meta['flynn.release'];
    return { is: meta['flynn.release'] === firstRelease ? 'run' : 'hang' };
  });
  const [first, second] = [await push(world, {}), await push(world, {})];
  await using _runner = startRunner(world);
  assert.equal((await outcome(world, first[2]?.id)).operation.state, 'complete');
  const live = await client.call(releases.get, { params: { ...params, release: 'v1' } });
  const newest = async () => (await client.call(deployments.list, { params }))[0];
  const isUnderWay = async () => {
    const deployment = await newest();
    return deployment?.oldReleaseId === live.id && deployment.state === 'running';
  };
  await waitFor(isUnderWay, { what: 'the second rollout', deadlineMs: 30_000 });
  await client.call(operations.cancel, { params: { operation: second[2]?.id ?? '' } });
  const { operation } = await outcome(world, second[2]?.id);
  assert.deepEqual([operation.state, operation.error], ['cancelled', 'it was cancelled: its rollout is taken back']);
  const failed = await waitFor(
    async () => {
      const deployment = await newest();
      return deployment?.state === 'failed' && deployment;
    },
    { what: 'the rollout to be taken back', deadlineMs: 30_000 },
  );
  assert.match(failed.error ?? '', /its push was cancelled/);
  assert.equal((await client.call(apps.get, { params })).releaseId, live.id);
});

test('a runner that is stopped finishes what ends in time and takes nothing new', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'run' } });
  const chain = await push(world, {});
  const runner = startRunner(world);
  const host = await waitFor(
    () =>
      world.controller.hosts.find((host) =>
        host.statuses().some(({ meta, state }) => meta['flynn.type'] === 'build' && state === 'running'),
      ),
    { what: 'the build to run', deadlineMs: 30_000 },
  );
  const stopped = runner.stop();
  const build = host.statuses().find(({ meta, state }) => meta['flynn.type'] === 'build' && state === 'running');
  await host.end(build?.id ?? '', 0);
  await stopped;
  const states = await Promise.all(
    chain.map(
      async ({ id }) => (await world.controller.client.call(operations.get, { params: { operation: id } })).state,
    ),
  );
  assert.deepEqual(states, ['complete', 'queued', 'queued']);
});

test('a build goes on over a restart of the controller: its runner reports to the next one, and every line is there once', async () => {
  await using world = await startWorld();
  const { controller } = world;
  behave(world, { build: { is: 'run', lines: ['working'] } });
  const [build] = await push(world, {});
  let url = '';
  const startWeb = async () => {
    const log = silentLogger();
    const { settings } = controller.deps;
    const parts = await openController({ store: controller.store, settings, clusterKey: controller.key, log });
    const logs = logAggregatorClient({ baseUrl: async () => '', key: controller.key });
    const blobs = createBlobClient({ baseUrl: async () => '', key: controller.key });
    const { store, userKey, key: clusterKey } = controller;
    const web = await openWeb({ deps: parts.deps, store, logAggregator: logs, blobs, rootKeys: [userKey], clusterKey });
    const { handlers, gate } = web;
    const server = await startServer({ name: 'controller', handlers, gate, port: 0, log });
    url = server.url;
    return async () => {
      parts.deps.dispatch.close();
      await server.close();
      await web[Symbol.asyncDispose]();
      await Promise.all([logs.close(), blobs.close(), parts[Symbol.asyncDispose]()]);
    };
  };
  const stopFirst = await startWeb();
  await using _runner = startRunner(world, { baseUrl: async () => url });
  const host = await waitFor(
    () =>
      controller.hosts.find((one) =>
        one.statuses().some(({ meta, state }) => meta['flynn.type'] === 'build' && state === 'running'),
      ),
    { what: 'the build to run', deadlineMs: 60_000 },
  );
  const read = { params: { operation: build?.id ?? '' }, query: { follow: false } };
  const lineCount = async (): Promise<number> => {
    const lines = controller.client.events(operations.log, read, { signal: AbortSignal.timeout(60_000) });
    return (await Array.fromAsync(lines)).filter(({ event }) => event === 'line').length;
  };
  await waitFor(async () => (await lineCount()) === 2, { what: 'its lines', deadlineMs: 60_000 });
  await stopFirst();
  const stopSecond = await startWeb();
  const job = host.statuses().find(({ meta }) => meta['flynn.type'] === 'build');
  await host.end(job?.id ?? '', 0);
  const { operation, lines } = await outcome(world, build?.id);
  await stopSecond();
  assert.deepEqual([operation.state, operation.attempt, operation.error], ['complete', 1, undefined]);
  assert.deepEqual(lines, ['-----> Building shop...', 'working']);
});

test('a runner of one’s own begins to work once it is adopted, and again after it was forgotten and adopted anew', async () => {
  await using world = await startWorld();
  const { client } = world.controller;
  behave(world, { build: { is: 'exit', code: 1 } });
  const env = {
    FLYNN_RUNNER_ID: 'own',
    FLYNN_RUNNER_TOKEN: 'a token of its own',
    FLYNN_RUNNER_LABELS: 'gpu=yes, zone=a',
  };
  await using _runner = startRunner(world, { env });
  const params = { runner: 'own' };
  const adopt = () =>
    waitFor(() => client.call(runners.adopt, { params }), { what: 'it to register', deadlineMs: 30_000 });
  const registered = await adopt();
  assert.deepEqual([registered.labels, registered.isPlatform], [{ gpu: 'yes', zone: 'a' }, false]);
  const [first] = await push(world);
  assert.equal((await outcome(world, first?.id)).operation.runnerId, 'own');
  await client.call(runners.forget, { params });
  await adopt();
  const [second] = await push(world);
  assert.equal((await outcome(world, second?.id)).operation.runnerId, 'own');
});

test('labels of a runner are written as name=value, and what is not is told', () => {
  const base = { FLYNN_KEY: 'k', FLYNN_RUNNER_ID: 'r' };
  const labelsOf = (text: string) =>
    identityOf(loadConfig(configSchema, { ...base, FLYNN_RUNNER_LABELS: text })).labels;
  assert.deepEqual(labelsOf('a=b,c=d=e'), { a: 'b', c: 'd=e' });
  for (const wrong of ['a', 'a=b,c', '=b']) assert.throws(() => labelsOf(wrong), /NAME=VALUE/);
});

test('what a file says of an app before its first image is what that begins with, and what it adds later stays with the next', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const { client } = world.controller;
  const params = { app: 'shop' };
  const image = { config: await world.blobs.put('{}'), hasCommand: true, port: 80 };
  const worker = processSchema.parse({ command: ['work'] });
  const made = await client.call(releases.create, { params, body: { processes: { web: {}, worker } } });
  const counts = { processes: { worker: 2 } };
  await client.call(formations.put, { params: { ...params, release: made.id }, body: counts });
  const deploy = async (result: { appJson?: AppJson } = {}): Promise<void> => {
    const chain = await push(world, { image, processTypes: {}, ...result });
    await using _runner = startRunner(world);
    const { operation, lines } = await outcome(world, chain[2]?.id);
    assert.equal(operation.state, 'complete', lines.join('\n'));
  };
  await deploy();
  await world.controller.jobsOf('shop', 2, ({ type, state }) => type === 'worker' && state === 'running');
  await deploy({ appJson: parseAppJson('{ "healthchecks": { "web": [{ "path": "/up" }] } }') });
  const live = async () => {
    const { releaseId = '' } = await client.call(apps.get, { params });
    return (await client.call(releases.get, { params: { ...params, release: releaseId } })).processes;
  };
  const checked = await live();
  assert.deepEqual(checked['worker']?.command, ['work']);
  assert.equal(checked['web']?.ports[0]?.service?.check?.path, '/up');
  await deploy();
  assert.equal((await live())['web']?.ports[0]?.service, undefined, 'the check of app.json went with it');
});

test('an image that was imported without the record of its build says nothing of what people added: the next one begins anew', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0 } });
  const { client } = world.controller;
  const params = { app: 'shop' };
  const image = { config: await world.blobs.put('{}'), hasCommand: true, port: 80 };
  const deploy = async (processTypes: Record<string, string>): Promise<Release> => {
    const chain = await push(world, { image, processTypes, buildpack: 'image' });
    await using _runner = startRunner(world);
    const { operation, lines } = await outcome(world, chain[2]?.id);
    assert.equal(operation.state, 'complete', lines.join('\n'));
    const { releaseId = '' } = await client.call(apps.get, { params });
    return client.call(releases.get, { params: { ...params, release: releaseId } });
  };
  const { artifactId = '', processes } = await deploy({ web: 'serve', worker: 'work' });
  const built = await client.call(releases.getArtifact, { params: { artifact: artifactId } });
  const { [resultMeta]: _record, ...meta } = built.meta;
  const imported = await client.call(releases.createArtifact, { body: { type: built.type, image: built.image, meta } });
  const { id } = await client.call(releases.create, { params, body: { artifactId: imported.id, processes } });
  await world.controller.deploy('shop', id);
  const next = await deploy({});
  assert.deepEqual(Object.keys(next.processes), ['web']);
  assert.equal(next.processes['web']?.command, undefined);
});
