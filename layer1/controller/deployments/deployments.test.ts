import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { resourcePrefix } from '@flynn/resource/keys';
import { cellKeys, jobStatusSchema, workloadSchema } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { apps, deployments, formations, jobs, releases } from '../api.ts';
import { deploymentControls } from './api-controls.ts';
import { compileWorkload } from '../processes/compile.ts';
import type { Deployment, Job } from '../model.ts';
import { runnableOf } from '../releases/releases.ts';
import { appType, releaseType } from '../resources.ts';
import { routing } from '../routes/api.ts';
import { limitDeployment, startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);
const web = { web: { ports: [{ port: 8080 }] } };
const jobsOf = (app: string, count: number, isWanted?: (job: Job) => boolean) => world.jobsOf(app, count, isWanted);

test('the first deployment starts one web, and the release is live once it is up', async () => {
  const { app, deployment, release } = await world.deployApp('shop', { ...web, worker: {} });
  assert.equal(deployment.state, 'complete', deployment.error);
  assert.equal(app.releaseId, release.id);
  assert.equal(release.version, 1);
  const [job] = await jobsOf('shop', 1);
  assert.equal(job?.type, 'web');
  assert.equal(job?.releaseId, release.id);
  const formation = await world.client.call(formations.get, { params: { app: 'shop', release: 'v1' } });
  assert.deepEqual(formation.processes, { web: 1, worker: 0 });
});

test('scaling up and down is followed by jobs; types left out stay', async () => {
  const params = { app: 'shop', release: 'v1' };
  await world.client.call(formations.put, { params, body: { processes: { web: 3 } } });
  await jobsOf('shop', 3);
  const formation = await world.client.call(formations.put, { params, body: { processes: { worker: 1 } } });
  assert.deepEqual(formation.processes, { web: 3, worker: 1 });
  await jobsOf('shop', 4);
  await world.client.call(formations.put, { params, body: { processes: { web: 1, worker: 0 } } });
  await jobsOf('shop', 1);
});

test('scaling refuses unknown types naming the known ones, counts below zero and what is no number', async () => {
  const params = { app: 'shop', release: 'v1' };
  const put = (processes: Record<string, number>) => world.client.call(formations.put, { params, body: { processes } });
  await assert.rejects(
    put({ wbe: 1 }),
    isCode('invalid', /no process type "wbe": it has web, worker; did you mean web\?/),
  );
  await assert.rejects(put({ web: -1 }), isCode('invalid', /below zero/));
  await assert.rejects(put({ web: 1.5 }), isCode('invalid', /int/));
  await assert.rejects(put({ web: 100_000 }), isCode('invalid', /above/));
  await assert.rejects(
    world.client.call(formations.put, { params: { app: 'shop', release: 'v9' }, body: { processes: {} } }),
    isCode('not_found', /no release v9/),
  );
});

test('scales at the same time are all in the formation', async () => {
  await world.deployApp('busy', { web: {}, a: {}, b: {}, c: {} });
  const params = { app: 'busy', release: 'v1' };
  await Promise.all(
    ['a', 'b', 'c'].map((type) => world.client.call(formations.put, { params, body: { processes: { [type]: 2 } } })),
  );
  const formation = await world.client.call(formations.get, { params });
  assert.deepEqual(formation.processes, { web: 1, a: 2, b: 2, c: 2 });
  await jobsOf('busy', 7);
});

test('a second release takes over counts and what it leaves out; the old jobs go', async () => {
  const live = await world.client.call(apps.get, { params: { app: 'shop' } });
  await world.client.call(formations.put, { params: { app: 'shop', release: 'v1' }, body: { processes: { web: 2 } } });
  await jobsOf('shop', 2);
  const release = await world.client.call(releases.create, {
    params: { app: 'shop' },
    body: { env: { COLOUR: 'blue' } },
  });
  assert.equal(release.version, 2);
  assert.deepEqual(Object.keys(release.processes), ['web', 'worker']);
  const deployment = await world.deploy('shop', release.id);
  assert.equal(deployment.state, 'complete', deployment.error);
  assert.equal(deployment.oldReleaseId, live.releaseId);
  assert.equal(deployment.progress['web']?.up, 2);
  const up = await jobsOf('shop', 2, (job) => job.state === 'running' && job.releaseId === release.id);
  assert.equal(up.length, 2);
  await jobsOf('shop', 0, (job) => job.releaseId === live.releaseId);
  const back = await world.deploy('shop', live.releaseId ?? '');
  assert.equal(back.state, 'complete');
  assert.equal((await world.client.call(apps.get, { params: { app: 'shop' } })).releaseId, live.releaseId);
  await jobsOf('shop', 2, (job) => job.releaseId === live.releaseId);
  assert.deepEqual(
    (await world.client.call(releases.list, { params: { app: 'shop' } })).map(({ version }) => version),
    [2, 1],
  );
});

test('a release whose job crashes fails: its last lines are told, the old release stays as it was', async () => {
  const { release: good } = await world.deployApp('fragile', web);
  await world.client.call(formations.put, {
    params: { app: 'fragile', release: 'v1' },
    body: { processes: { web: 2 } },
  });
  const before = await jobsOf('fragile', 2);
  const bad = await world.makeRelease('fragile', web);
  const lines = Array.from({ length: 30 }, (_, index) => `line ${index}`);
  world.setBehaviour((job) =>
    job.template.meta['flynn.release'] === bad.id && job.index === 1 ? { is: 'crash', code: 7, lines } : { is: 'run' },
  );
  const deployment = await world.deploy('fragile', bad.id);
  assert.equal(deployment.state, 'failed');
  assert.match(deployment.error ?? '', /a web job of the new release did not stay up: .*exit code 7/);
  assert.equal(deployment.failedJob?.exitCode, 7);
  assert.deepEqual(deployment.failedJob?.lines, lines.slice(-20));
  assert.equal((await world.client.call(apps.get, { params: { app: 'fragile' } })).releaseId, good.id);
  const left = await jobsOf('fragile', 2, () => true);
  assert.deepEqual(left.map(({ id }) => id).sort(), before.map(({ id }) => id).sort());

  world.setBehaviour((job) =>
    job.template.meta['flynn.release'] === bad.id ? { is: 'crash', code: 127, isBack: true } : { is: 'run' },
  );
  const back = await world.deploy('fragile', bad.id);
  assert.equal(back.state, 'failed');
  assert.equal(back.failedJob?.exitCode, 127, 'also of one that runs again by now');
  world.setBehaviour(() => ({ is: 'run' }));
  const again = await world.deploy('fragile', bad.id);
  assert.equal(again.state, 'complete', 'what crashed in the failed deployment is not held against the next');
});

test('a deployment that never gets up fails at its deadline, also when the worker restarts meanwhile', async () => {
  await world.deployApp('slow', web);
  const release = await world.makeRelease('slow', web);
  world.setBehaviour(() => ({ is: 'hang' }));
  const ending = world.deploy('slow', release.id);
  await jobsOf('slow', 1, (job) => job.state === 'starting');
  await assert.rejects(
    world.client.call(deployments.create, { params: { app: 'slow' }, body: { releaseId: release.id } }),
    isCode('conflict', /under way/),
  );
  await assert.rejects(
    world.client.call(formations.put, { params: { app: 'slow', release: 'v1' }, body: { processes: { web: 5 } } }),
    isCode('conflict', /under way: scale once/),
  );
  // The time it has had, and a second that passes while the worker restarts.
  const [begun] = await world.client.call(deployments.list, { params: { app: 'slow' } });
  assert.ok(begun !== undefined);
  await limitDeployment(world, begun.id, Date.now() - Date.parse(begun.createdAt) + 1_000);
  await world.restartWorker();
  const deployment = await ending;
  world.setBehaviour(() => ({ is: 'run' }));
  assert.equal(deployment.state, 'failed');
  assert.match(deployment.error ?? '', /within \d+(\.\d+)? s: 0 of 1 web jobs are up/);
  await jobsOf('slow', 1, () => true);
});

test('many jobs are replaced in steps, and never fewer are up than were', async () => {
  await world.deployApp('big', web);
  await world.client.call(formations.put, { params: { app: 'big', release: 'v1' }, body: { processes: { web: 12 } } });
  const before = await jobsOf('big', 12);
  const release = await world.makeRelease('big', web);
  const { revision } = await world.store.list('/flynn/cell/');
  const { id } = await world.client.call(deployments.create, {
    params: { app: 'big' },
    body: { releaseId: release.id },
  });
  let last: Deployment | undefined;
  for await (const { event, data } of world.client.events(
    deployments.events,
    { params: { deployment: id } },
    { signal: AbortSignal.timeout(60_000) },
  )) {
    if (event === 'deployment') last = data as Deployment;
    else assert.equal(event, 'job');
  }
  assert.equal(last?.state, 'complete', last?.error);
  const up = new Map(before.map((job) => [job.id, true]));
  const asked: number[] = [];
  const { revision: end } = await world.store.list('/flynn/cell/');
  for await (const { changes, revision: at } of world.store.watch('/flynn/cell/', {
    after: revision,
    signal: AbortSignal.timeout(60_000),
  })) {
    for (const change of changes) {
      if (change.type === 'delete') continue;
      if (change.entry.key.startsWith(cellKeys.status)) {
        const status = jobStatusSchema.parse(JSON.parse(change.entry.value));
        if (status.meta['flynn.app_name'] === 'big') up.set(status.id, status.state === 'running');
        assert.ok([...up.values()].filter(Boolean).length >= 12);
      }
      if (change.entry.key.includes(`${release.id}-web`) && change.entry.key.startsWith(cellKeys.workloads)) {
        asked.push(workloadSchema.parse(JSON.parse(change.entry.value)).count);
      }
    }
    if (at >= end) break;
  }
  assert.deepEqual(asked, [4, 8, 12]);
  await jobsOf('big', 12, () => true);
});

test('a type with a volume is replaced in place, and put back when the new release fails', async () => {
  const processes = { db: { volumes: [{ name: 'data', path: '/data' }] } };
  await world.client.call(apps.create, { body: { name: 'standing' } });
  const first = await world.makeRelease('standing', processes);
  await world.client.call(formations.put, {
    params: { app: 'standing', release: first.id },
    body: { processes: { db: 1 } },
  });
  assert.equal((await world.deploy('standing', first.id)).state, 'complete');
  const second = await world.makeRelease('standing', processes);
  assert.equal((await world.deploy('standing', second.id)).state, 'complete');
  const [job] = await jobsOf('standing', 1);
  assert.equal(job?.releaseId, second.id);
  assert.match(job?.workloadId ?? '', /-db$/);
  const third = await world.makeRelease('standing', processes);
  world.setBehaviour((assigned) =>
    assigned.template.meta['flynn.release'] === third.id ? { is: 'crash', code: 1 } : { is: 'run' },
  );
  assert.equal((await world.deploy('standing', third.id)).state, 'failed');
  world.setBehaviour(() => ({ is: 'run' }));
  const [again] = await jobsOf('standing', 1);
  assert.equal(again?.releaseId, second.id);
});

test('a one-off job that fails is not held against a deployment, whatever the types are called', async () => {
  await world.deployApp('named', web);
  const release = await world.makeRelease('named', { ...web, run: {} });
  await world.client.call(formations.put, {
    params: { app: 'named', release: release.id },
    body: { processes: { run: 1 } },
  });
  world.setBehaviour((job) =>
    job.workloadId.includes('-run-')
      ? { is: 'exit', code: 1 }
      : job.template.meta['flynn.type'] === 'web'
        ? { is: 'hang' }
        : { is: 'run' },
  );
  const { id } = await world.client.call(deployments.create, {
    params: { app: 'named' },
    body: { releaseId: release.id },
  });
  const body = { releaseId: release.id, command: ['false'] };
  await world.client.call(jobs.run, { params: { app: 'named' }, body });
  await waitFor(
    async () =>
      (await world.client.call(jobs.list, { params: { app: 'named' }, query: { all: true } })).some(
        ({ exitCode }) => exitCode === 1,
      ),
    { what: 'the end of the one-off job', deadlineMs: 30_000 },
  );
  assert.equal((await world.client.call(deployments.get, { params: { deployment: id } })).state, 'running');
  world.setBehaviour(() => ({ is: 'run' }));
});

test('deploying the live release again is complete at once; a foreign release is not found', async () => {
  const live = await world.client.call(apps.get, { params: { app: 'shop' } });
  assert.equal((await world.deploy('shop', live.releaseId ?? '')).state, 'complete');
  const other = await world.client.call(apps.get, { params: { app: 'fragile' } });
  await assert.rejects(
    world.client.call(deployments.create, { params: { app: 'shop' }, body: { releaseId: other.releaseId ?? '' } }),
    isCode('not_found', /shop has no release/),
  );
});

test('a release without an image is live without jobs; scaling it says what is missing', async () => {
  await world.client.call(apps.create, { body: { name: 'bare' } });
  const release = await world.client.call(releases.create, { params: { app: 'bare' }, body: { env: { A: '1' } } });
  assert.equal((await world.deploy('bare', release.id)).state, 'complete');
  await assert.rejects(
    world.client.call(jobs.run, { params: { app: 'bare' }, body: { command: ['ls'] } }),
    isCode('invalid', /no image or slug/),
  );
});

test('jobs of the next release have the time to come up that deployments of the app have, those of the release before keep theirs', async () => {
  const { release } = await world.deployApp('patient', { web: { ports: [{ port: 8080 }] } });
  const params = { app: 'patient' };
  await world.client.call(apps.update, { params, body: { deployTimeoutMs: 300_000 } });
  const next = await world.client.call(releases.create, { params, body: { env: { A: '1' } } });
  const app = await world.deps.resources.get(appType, release.appId);
  const timesOf = async (id: string) => {
    const found = await world.deps.resources.get(releaseType, id);
    const runnable = await runnableOf(world.deps, app, found);
    const web = runnable?.release.processes['web'];
    assert.ok(runnable !== undefined && web !== undefined);
    return compileWorkload(runnable, 'web', web, 1).template.ports[0]?.service?.check?.startTimeoutMs;
  };
  assert.deepEqual([await timesOf(release.id), await timesOf(next.id)], [60_000, 240_000]);
  assert.ok(!('checks' in next), 'what a release is made of does not tell');
});

test('what one app has is read without what all others have: in its deployment, and when its deployments are asked for', async (t) => {
  const store = createMemoryStore();
  await using own = await startTestController({ store });
  await using other = await startTestController({ store, hosts: 0, hasWorker: false });
  const { deployment } = await own.deployApp('shop', { web: {} });
  await own.client.call(routing.create, {
    params: { app: 'shop' },
    body: { type: 'http', domain: 'shop.example.com' },
  });
  const lists = [own, other].map(({ deps }) => t.mock.method(deps.resources, 'list'));
  const release = await own.makeRelease('shop', { web: {} });
  const next = await own.client.call(deployments.create, { params: { app: 'shop' }, body: { releaseId: release.id } });
  const idsAt = async ({ client }: TestController, query = {}) =>
    (await client.call(deployments.list, { params: { app: 'shop' }, query })).map(({ id }) => id);
  assert.deepEqual(await idsAt(other), [next.id, deployment.id], 'another controller knows of it at once');
  assert.equal((await own.endOf(next.id)).state, 'complete');
  assert.deepEqual(await idsAt(own, { limit: 1 }), [next.id]);
  const ofOwner = lists.flatMap(({ mock }) =>
    mock.calls.flatMap(({ arguments: [type, options] }) => (options?.owner === undefined ? [] : [type.name])),
  );
  assert.deepEqual(
    ofOwner.filter((type) => type === 'route' || type === 'deployment'),
    [],
  );
});

test('the list of an app tells what was last made of its deployments, at any controller, and reads no others for it', async (t) => {
  const store = createMemoryStore();
  await using own = await startTestController({ store });
  const apart = store.connect();
  const watch = apart.watch.bind(apart);
  // It hears of each change of a deployment some time after it.
  apart.watch = async function* late(prefix, options) {
    for await (const batch of watch(prefix, options)) {
      if (prefix === resourcePrefix('deployment')) await pause(100, options.signal);
      yield batch;
    }
  };
  await using other = await startTestController({ store: apart, hosts: 0, hasWorker: false });
  await own.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  const release = await own.makeRelease('shop', { web: {} });
  own.setBehaviour(() => ({ is: 'hang' }));
  const { id } = await own.client.call(deployments.create, { params, body: { releaseId: release.id } });
  const stateAt = async ({ client }: TestController) =>
    (await client.call(deployments.list, { params })).find((one) => one.id === id)?.state;
  assert.ok((await stateAt(other)) !== undefined);
  await own.client.call(deploymentControls.pause, { params: { deployment: id } });
  assert.equal(await stateAt(other), 'paused');
  await own.client.call(deploymentControls.abort, { params: { deployment: id }, body: {} });
  assert.equal((await own.endOf(id)).state, 'failed');
  assert.equal(await stateAt(other), 'failed');
  // A change that is none of a deployment.
  await own.client.call(apps.update, { params, body: { deployTimeoutMs: 77_000 } });
  const whole = [store, apart].map((one) => t.mock.method(one, 'list'));
  assert.deepEqual([await stateAt(own), await stateAt(other)], ['failed', 'failed']);
  const prefixes = whole.flatMap(({ mock }) => mock.calls.map(({ arguments: [prefix] }) => prefix));
  assert.deepEqual(
    prefixes.filter((prefix) => prefix === resourcePrefix('deployment')),
    [],
  );
});
