/** What runs once around a deployment: the states as a table, and against a whole controller. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, jobStatusSchema } from '@flynn/scheduler/cell';
import { seenStatus } from '@flynn/scheduler/lost-jobs';
import { apps, deployments, jobs, releases } from '../api.ts';
import { hosts } from '../hosts/api.ts';
import { deploymentControls } from './api-controls.ts';
import type { Scripts } from '../apps/app-json.ts';
import { taskLine, taskState } from './tasks.ts';
import type { Deployment } from '../model.ts';
import { appType } from '../resources.ts';
import { rolloutSchema } from './rollout-settings.ts';
import { nextStep } from './rollout.ts';
import { limitDeployment, startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

const status = (change: object) =>
  seenStatus(
    jobStatusSchema.parse({
      id: 'h1-a',
      hostId: 'h1',
      workloadId: 'w',
      version: 'v',
      meta: { 'flynn.type': 'release' },
      state: 'running',
      isFinal: false,
      createdAt: 1,
      ...change,
    }),
    { isThere: true, isAssigned: true },
  );
const ended = (change: object) => [status({ isFinal: true, ...change })];

const states = [
  { title: 'asked for', workload: { count: 1 }, statuses: [], is: 'waiting' },
  { title: 'starting', workload: { count: 1 }, statuses: [status({ state: 'starting' })], is: 'running' },
  { title: 'through', workload: { count: 0 }, statuses: ended({ state: 'done', exitCode: 0 }), is: 'done' },
  {
    title: 'failed',
    statuses: ended({ state: 'crashed', exitCode: 3 }),
    is: 'failed',
    error: 'it ended with exit code 3',
  },
  { title: 'stopped', statuses: ended({ state: 'done', exitCode: 143 }), is: 'failed', error: 'somebody stopped it' },
  { title: 'lost', statuses: ended({ state: 'lost' }), is: 'failed', error: 'its host was lost' },
  { title: 'taken away before it began', statuses: [], is: 'failed', error: 'somebody stopped it' },
  {
    title: 'forgotten',
    workload: { count: 0 },
    statuses: [],
    is: 'failed',
    error: 'how it ended is not known any more',
  },
];

for (const { title, workload, statuses, is, error } of states) {
  test(`a task that is ${title} is ${is}`, () => {
    const state = taskState('w', { workload, statuses });
    assert.equal(state.is, is);
    assert.equal(state.is === 'failed' ? state.error : undefined, error);
  });
}

test('predeploy and the release line are one job, the second only after the first', () => {
  assert.equal(taskLine({ predeploy: 'a', release: 'b' }, 'release'), '{ a\n} && { b\n}');
  assert.equal(taskLine({ release: 'b', postdeploy: 'c' }, 'release'), 'b');
  assert.equal(taskLine({ release: 'b', postdeployEach: 'c' }, 'postdeploy'), 'c');
  assert.equal(taskLine(undefined, 'release'), undefined);
});

test('what app.json wants run once is a line of the first release alone, before what each release runs', () => {
  const scripts = { postdeploy: 'seed', postdeployEach: 'notify' };
  assert.equal(taskLine(scripts, 'postdeploy', { isFirst: true }), '{ seed\n} && { notify\n}');
  assert.equal(taskLine(scripts, 'postdeploy', { isFirst: false }), 'notify');
  assert.equal(taskLine({ postdeploy: 'seed' }, 'postdeploy'), undefined);
});

const releasing = {
  types: [],
  plan: rolloutSchema.parse({}),
  phase: 'releasing',
  isPromoted: false,
  progressMs: 0,
  timeoutMs: 1_000,
} as const;

test('a task that finds no place is waited for as long as a job would be', () => {
  assert.deepEqual(nextStep({ ...releasing, task: { is: 'waiting' }, nowMs: 0 }), { do: 'wait', untilMs: 1_000 });
  assert.deepEqual(nextStep({ ...releasing, task: { is: 'running' }, nowMs: 9_000 }), {
    do: 'wait',
    untilMs: undefined,
  });
  assert.deepEqual(nextStep({ ...releasing, task: { is: 'done' }, nowMs: 0 }), { do: 'begin' });
  assert.deepEqual(nextStep({ ...releasing, task: { is: 'waiting' }, nowMs: 1_000 }), {
    do: 'fail',
    error: 'the release command did not start within 1 s',
  });
});

test('the deadline of the whole ends a release command that has not started, and one that does not end', () => {
  const view = { ...releasing, deadlineMs: 500 } as const;
  const job = { id: 'h1-a', type: 'release' };
  const late = 'it was not through by its deadline: the release command';
  const table = [
    { task: { is: 'waiting' }, nowMs: 499, step: { do: 'wait', untilMs: 500 } },
    { task: { is: 'waiting' }, nowMs: 500, step: { do: 'fail', error: `${late} did not start` } },
    { task: { is: 'running', job }, nowMs: 499, step: { do: 'wait', untilMs: 500 } },
    { task: { is: 'running', job }, nowMs: 500, step: { do: 'fail', error: `${late} still ran`, job } },
    // What is through is through.
    { task: { is: 'done' }, nowMs: 500, step: { do: 'begin' } },
  ] as const;
  for (const { task, nowMs, step } of table) assert.deepEqual(nextStep({ ...view, task, nowMs }), step);
});

test('a postdeploy that finds no place holds up no other deployment for ever', () => {
  const view = {
    types: [],
    plan: rolloutSchema.parse({}),
    phase: 'finishing',
    isPromoted: false,
    progressMs: 0,
    timeoutMs: 1_000,
  } as const;
  assert.deepEqual(nextStep({ ...releasing, task: { is: 'waiting' }, nowMs: 0 }), { do: 'wait', untilMs: 1_000 });
  assert.deepEqual(nextStep({ ...view, task: { is: 'running' }, nowMs: 9_000 }), { do: 'wait', untilMs: undefined });
  assert.deepEqual(nextStep({ ...view, task: { is: 'waiting' }, nowMs: 1_000 }), {
    do: 'complete',
    warning: 'its postdeploy failed: it did not start within 1 s',
  });
});

async function beginWith(world: TestController, scripts: Scripts): Promise<Deployment> {
  const { release } = await world.deployApp('shop', { web: {} });
  const body = { scripts, ...(release.artifactId === undefined ? {} : { artifactId: release.artifactId }) };
  const next = await world.client.call(releases.create, { params: { app: 'shop' }, body });
  return world.client.call(deployments.create, { params: { app: 'shop' }, body: { releaseId: next.id } });
}

const reach = (world: TestController, id: string, state: Deployment['state']) =>
  waitFor(
    async () => {
      const found = await world.client.call(deployments.get, { params: { deployment: id } });
      return found.state === state ? found : undefined;
    },
    { what: `deployment ${id} being ${state}`, deadlineMs: 60_000, intervalMs: 5 },
  );

test('nothing of the new release starts before its release command is through, whichever worker looks', async () => {
  await using world = await startTestController({
    behave: (job) => (job.template.meta['flynn.type'] === 'release' ? { is: 'hang' } : { is: 'run' }),
  });
  const { id, newReleaseId, releaseJobId, state } = await beginWith(world, { release: 'migrate' });
  assert.equal(state, 'releasing');
  const isTask = ({ workloadId, state: of }: { workloadId: string; state: string }) =>
    workloadId === releaseJobId && of === 'starting';
  const [task] = await world.jobsOf('shop', 1, isTask);
  await world.restartWorker();
  assert.equal(
    (await world.client.call(jobs.list, { params: { app: 'shop' } })).filter(({ type }) => type === 'web').length,
    1,
  );
  const host = world.hosts.find(({ id: hostId }) => hostId === task?.hostId);
  await host?.end(task?.id ?? '', 0);
  await reach(world, id, 'complete');
  const [web] = await world.jobsOf('shop', 1, ({ type }) => type === 'web');
  assert.equal(web?.releaseId, newReleaseId);
});

test('aborted while its release command runs, a deployment stops it', async () => {
  await using world = await startTestController();
  const { id, releaseJobId } = await beginWith(world, { predeploy: 'migrate' });
  await world.jobsOf('shop', 1, ({ workloadId, state }) => workloadId === releaseJobId && state === 'running');
  await world.client.call(deploymentControls.abort, { params: { deployment: id }, body: {} });
  const ended = await reach(world, id, 'failed');
  assert.equal(ended.error, 'it was aborted');
  await world.jobsOf('shop', 0, ({ workloadId }) => workloadId === releaseJobId);
  const app = await world.client.call(apps.get, { params: { app: 'shop' } });
  assert.equal(app.releaseId, ended.oldReleaseId);
});

test('a release command that hangs ends with its deployment at the deadline of the whole, and its last lines are told', async () => {
  await using world = await startTestController();
  const { release } = await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  await world.client.call(apps.update, { params, body: { rollout: { deadlineMs: 1_000 } } });
  const body = { scripts: { release: 'migrate' }, artifactId: release.artifactId ?? '' };
  const next = await world.client.call(releases.create, { params, body });
  const { id, releaseJobId } = await world.client.call(deployments.create, { params, body: { releaseId: next.id } });
  const ended = await reach(world, id, 'failed');
  assert.match(
    ended.error ?? '',
    /^it was not through by its deadline: the release command (still ran|did not start)$/,
  );
  if (ended.error?.endsWith('still ran') === true) assert.equal(ended.failedJob?.type, 'release');
  await world.jobsOf('shop', 0, ({ workloadId, state }) => workloadId === releaseJobId && state === 'running');
  assert.equal(await world.store.get(cellKeys.workload(releaseJobId ?? '')), undefined);
  assert.equal((await world.client.call(apps.get, { params })).releaseId, release.id);
});

test('a failing postdeploy leaves the release live, and the deployment says so', async () => {
  await using world = await startTestController({
    behave: (job) => (job.template.meta['flynn.type'] === 'postdeploy' ? { is: 'exit', code: 2 } : { is: 'run' }),
  });
  const { id, newReleaseId } = await beginWith(world, { postdeployEach: 'notify' });
  const ended = await reach(world, id, 'complete');
  assert.equal(ended.warning, 'its postdeploy failed: it ended with exit code 2');
  assert.equal((await world.client.call(apps.get, { params: { app: 'shop' } })).releaseId, newReleaseId);
});

test('a postdeploy that hangs is named to who would go back, and ends as they are told', async () => {
  await using world = await startTestController();
  const { id } = await beginWith(world, { postdeployEach: 'hang' });
  const { postdeployJobId = '' } = await reach(world, id, 'finishing');
  await world.jobsOf('shop', 1, ({ workloadId, state }) => workloadId === postdeployJobId && state === 'running');
  const wayOut = new RegExp(`it waits for its postdeploy, which flynn kill ${postdeployJobId} ends`);
  const abort = world.client.call(deploymentControls.abort, { params: { deployment: id }, body: {} });
  await assert.rejects(abort, (error) => hasCode(error, 'conflict') && wayOut.test(error.message));
  await world.client.call(jobs.stop, { params: { app: 'shop', job: postdeployJobId } });
  await reach(world, id, 'complete');
});

test('a postdeploy that no host takes is given up: the deployment ends, and it does not run later', async () => {
  await using world = await startTestController();
  const { release } = await world.deployApp('shop', { web: {} });
  const params = { app: 'shop' };
  await world.client.call(apps.update, { params, body: { rollout: { strategy: 'canary' } } });
  const body = { scripts: { postdeployEach: 'notify' }, artifactId: release.artifactId ?? '' };
  const next = await world.client.call(releases.create, { params, body });
  const { id } = await world.client.call(deployments.create, { params, body: { releaseId: next.id } });
  await reach(world, id, 'canary');
  for (const host of world.hosts) await world.client.call(hosts.cordon, { params: { host: host.id } });
  await limitDeployment(world, id, 1_000);
  await world.client.call(deploymentControls.promote, { params: { deployment: id } });
  const ended = await reach(world, id, 'complete');
  assert.equal(ended.warning, 'its postdeploy failed: it did not start within 1 s');
  assert.equal(await world.store.get(cellKeys.workload(ended.postdeployJobId ?? '')), undefined);
});

/** The lines of what ran once a release was live, in their order. */
async function postdeploys(world: TestController): Promise<unknown[]> {
  const jobsOfShop = await world.client.call(jobs.list, { params: { app: 'shop' }, query: { all: true } });
  return jobsOfShop.filter(({ type }) => type === 'postdeploy').map(({ releaseId }) => releaseId);
}

test('what is run once is run with the first release that goes live, and with no later one', async () => {
  await using world = await startTestController({
    behave: (job) => {
      const type = job.template.meta['flynn.type'];
      if (type === 'postdeploy') return { is: 'exit', code: 0 };
      return job.template.env['BROKEN'] === 'true' ? { is: 'crash', code: 1 } : { is: 'run' };
    },
  });
  const params = { app: 'shop' };
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const { artifactId = '' } = await world.makeRelease('shop', { web: {} });
  const body = { artifactId, processes: { web: {} }, scripts: { postdeploy: 'seed' } };
  const broken = await world.client.call(releases.create, { params, body: { ...body, env: { BROKEN: 'true' } } });
  assert.equal((await world.deploy('shop', broken.id)).state, 'failed');
  assert.deepEqual(await postdeploys(world), []);
  const first = await world.client.call(releases.create, { params, body: { ...body, env: {} } });
  assert.equal((await world.deploy('shop', first.id)).state, 'complete');
  assert.deepEqual(await postdeploys(world), [first.id]);
  const second = await world.client.call(releases.create, { params, body: { env: { A: '1' } } });
  assert.deepEqual(second.scripts, { postdeploy: 'seed' });
  const ended = await world.deploy('shop', second.id);
  assert.deepEqual([ended.state, ended.postdeployJobId], ['complete', undefined]);
  assert.equal((await world.deploy('shop', first.id)).state, 'complete');
  assert.deepEqual(await postdeploys(world), [first.id], 'nor on the way back');
});

test('an app that was restored has had its first release where it comes from', async () => {
  await using world = await startTestController();
  const params = { app: 'shop' };
  const { id } = await world.client.call(apps.create, { body: { name: 'shop' } });
  const { artifactId = '' } = await world.makeRelease('shop', { web: {} });
  const body = { artifactId, processes: { web: {} }, scripts: { postdeploy: 'seed' } };
  const release = await world.client.call(releases.create, { params, body });
  await world.deps.resources.updateStatus(appType, id, (app) => ({ ...app.status, wasLive: true }));
  const ended = await world.deploy('shop', release.id);
  assert.deepEqual([ended.state, ended.postdeployJobId], ['complete', undefined]);
});
