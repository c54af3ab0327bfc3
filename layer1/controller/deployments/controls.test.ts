/** Strategies, and what people may do to a deployment, against a whole controller with simulated hosts. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, jobStatusSchema } from '@flynn/scheduler/cell';
import type { JobStatus } from '@flynn/scheduler/cell';
import { apps, deployments, formations, jobs } from '../api.ts';
import { deploymentControls } from './api-controls.ts';
import { changedStatus } from './controls.ts';
import { changedRollout } from './settings.ts';
import type { Deployment, Release } from '../model.ts';
import { UpTimes } from './progress.ts';
import { RoutersWord } from './routers-word.ts';
import { stepDeployment } from './steps.ts';
import { limitDeployment, startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { rolloutSchema, type RolloutChange } from './rollout-settings.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const web = { web: { ports: [{ port: 8080 }] } };
const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

/** An app with so many `web` jobs, deployed so, and a second release of it. */
async function prepare(
  app: string,
  count: number,
  rollout: RolloutChange,
): Promise<{ first: Release; second: Release }> {
  const { release: first } = await world.deployApp(app, web);
  await world.client.call(formations.put, { params: { app, release: first.id }, body: { processes: { web: count } } });
  await world.jobsOf(app, count);
  await world.client.call(apps.update, { params: { app }, body: { rollout } });
  return { first, second: await world.makeRelease(app, web) };
}

async function begin(app: string, release: Release): Promise<string> {
  const { id } = await world.client.call(deployments.create, { params: { app }, body: { releaseId: release.id } });
  return id;
}

const get = (id: string) => world.client.call(deployments.get, { params: { deployment: id } });
const act = (name: 'pause' | 'resume' | 'promote', id: string) =>
  world.client.call(deploymentControls[name], { params: { deployment: id } });
const abort = (id: string, reason?: string) =>
  world.client.call(deploymentControls.abort, {
    params: { deployment: id },
    body: reason === undefined ? {} : { reason },
  });
const reach = (id: string, state: Deployment['state']) =>
  waitFor(async () => ((await get(id)).state === state ? get(id) : undefined), {
    what: `deployment ${id} being ${state}`,
    deadlineMs: 60_000,
    intervalMs: 5,
  });

/** Rolls it out; what came up and ended, in its order. The events tell the same, but for a first step that was over before. */
async function courseOf(app: string, first: Release, second: Release): Promise<string> {
  const { revision } = await world.store.list('/flynn/cell/');
  await world.stopWorker();
  const id = await begin(app, second);
  let isFollowed = false;
  const told: string[] = [];
  const signal = AbortSignal.timeout(60_000);
  for await (const { event, data } of world.client.events(
    deployments.events,
    { params: { deployment: id } },
    { signal },
  )) {
    // The other steps are the worker's.
    if (!isFollowed) await world.restartWorker();
    isFollowed = true;
    const job = data as { releaseId: string; state: string };
    if (event === 'job') told.push(`${job.releaseId === first.id ? 'old' : 'new'} ${job.state}`);
  }
  assert.equal((await get(id)).state, 'complete');
  const course: string[] = [];
  const states = new Map<string, string>();
  for (const status of await changesOf(app, revision)) {
    const which = status.meta['flynn.release'] === first.id ? 'old' : 'new';
    const known = states.get(status.id);
    const state = status.isFinal ? 'down' : status.state === 'running' ? 'up' : 'other';
    states.set(status.id, state);
    if (state !== 'other' && state !== known) course.push(`${which} ${state}`);
  }
  const isAll = told.length >= course.length - 1 && course.join().endsWith(told.join());
  assert.ok(isAll, `${course.join()} ends with ${told.join()}`);
  return course.join(', ');
}

/** Every status of the app's jobs written since. */
async function changesOf(app: string, revision: number): Promise<JobStatus[]> {
  const { id } = await world.client.call(apps.get, { params: { app } });
  const marker = await world.store.transact({ then: [{ put: '/flynn/marker', value: '{}' }] });
  const found: JobStatus[] = [];
  const signal = AbortSignal.timeout(60_000);
  for await (const batch of world.store.watch('/flynn/', { after: revision, signal })) {
    for (const change of batch.changes) {
      if (change.type === 'delete' || !change.entry.key.startsWith(cellKeys.status)) continue;
      const status = jobStatusSchema.parse(JSON.parse(change.entry.value));
      if (status.workloadId.startsWith(`${id}-`)) found.push(status);
    }
    if (batch.revision >= (marker.succeeded ? marker.revision : 0)) break;
  }
  return found;
}

test('one by one: a new job comes up, an old one ends, and again, told in this order', async () => {
  const { first, second } = await prepare('single', 3, { strategy: 'one-by-one' });
  assert.equal(await courseOf('single', first, second), 'new up, old down, new up, old down, new up, old down');
});

test('one down, one up: there is never one more than wanted', async () => {
  const { first, second } = await prepare('tight', 3, { strategy: 'one-down-one-up' });
  assert.equal(await courseOf('tight', first, second), 'old down, new up, old down, new up, old down, new up');
  assert.equal(
    (await world.jobsOf('tight', 3)).every(({ releaseId }) => releaseId === second.id),
    true,
  );
});

test('all at once: every new job is asked for in the first step', async () => {
  const { second } = await prepare('whole', 9, { strategy: 'all-at-once' });
  const ending = world.deploy('whole', second.id);
  assert.equal((await ending).state, 'complete');
  await world.jobsOf('whole', 9, () => true);
});

test('a canary waits for its promotion beside everything old, then the rest follows', async () => {
  const { first, second } = await prepare('mine', 6, { strategy: 'canary', canaries: 2 });
  const id = await begin('mine', second);
  await reach(id, 'canary');
  await world.jobsOf('mine', 2, (job) => job.releaseId === second.id && job.state === 'running');
  await world.jobsOf('mine', 6, (job) => job.releaseId === first.id && job.state === 'running');
  await world.restartWorker();
  assert.equal((await get(id)).state, 'canary');
  assert.equal((await act('promote', id)).state, 'running');
  await act('promote', id);
  await reach(id, 'complete');
  await world.jobsOf('mine', 6, (job) => job.releaseId === second.id);
});

test('a canary that is aborted goes, and the old release never lost a job', async () => {
  const { first, second } = await prepare('bird', 3, { strategy: 'canary' });
  const before = await world.jobsOf('bird', 3);
  const id = await begin('bird', second);
  await reach(id, 'canary');
  await abort(id, 'p99 went up');
  const ended = await reach(id, 'failed');
  assert.equal(ended.error, 'it was aborted: p99 went up');
  const left = await world.jobsOf('bird', 3, () => true);
  assert.deepEqual(left.map(({ id: job }) => job).sort(), before.map(({ id: job }) => job).sort());
  assert.equal((await world.client.call(apps.get, { params: { app: 'bird' } })).releaseId, first.id);
  await assert.rejects(abort(id), isCode('conflict', /cannot abort this deployment, it is failed/));
});

test('paused, a deployment neither goes on nor fails; resumed, it does', async () => {
  const { second } = await prepare('calm', 2, {});
  world.setBehaviour(() => ({ is: 'hang' }));
  const id = await begin('calm', second);
  await act('pause', id);
  assert.equal((await act('pause', id)).state, 'paused');
  await limitDeployment(world, id, 1_000);
  // More than it has.
  await systemClock.sleep(1_300);
  assert.equal((await get(id)).state, 'paused', 'no time runs out while it is paused');
  await act('resume', id);
  const ended = await reach(id, 'failed');
  world.setBehaviour(() => ({ is: 'run' }));
  assert.match(ended.error ?? '', /nothing more came up within 1 s: 0 of 2 web jobs are up/);
});

test('aborted half-way, the old jobs are back before the new ones go', async () => {
  const { first, second } = await prepare('half', 4, { strategy: 'one-by-one' });
  const before = await world.jobsOf('half', 4);
  let started = 0;
  world.setBehaviour((job) => {
    if (job.template.meta['flynn.release'] !== second.id) return { is: 'run' };
    started += 1;
    return started <= 2 ? { is: 'run' } : { is: 'hang' };
  });
  const { revision } = await world.store.list('/flynn/cell/');
  const id = await begin('half', second);
  await world.jobsOf('half', 2, (job) => job.releaseId === second.id && job.state === 'running');
  await world.jobsOf('half', 2, (job) => job.releaseId === first.id && job.state === 'running');
  await abort(id);
  await reach(id, 'failed');
  world.setBehaviour(() => ({ is: 'run' }));
  await world.jobsOf('half', 4, (job) => job.releaseId === first.id && job.state === 'running');
  await world.jobsOf('half', 4, () => true);
  const up = new Set(before.map(({ id: job }) => job));
  for (const status of await changesOf('half', revision)) {
    if (status.state === 'running') up.add(status.id);
    else up.delete(status.id);
    assert.ok(up.size >= 4, 'never fewer than four were up');
  }
});

test('a canary that is not healthy is not promoted, and it is once it is well again', async () => {
  const { second } = await prepare('ill', 3, { strategy: 'canary', canaries: 2 });
  const id = await begin('ill', second);
  await reach(id, 'canary');
  const [job] = await world.jobsOf('ill', 2, ({ releaseId }) => releaseId === second.id);
  const key = cellKeys.jobStatus(job?.hostId ?? '', job?.id ?? '');
  const status = jobStatusSchema.parse(JSON.parse((await world.store.get(key))?.value ?? ''));
  const say = async (change: Partial<JobStatus>) => {
    const { revision } = await world.store.transact({
      then: [{ put: key, value: JSON.stringify({ ...status, ...change }) }],
    });
    await world.deps.cell.statuses.reached(revision);
  };
  await say({ state: 'starting', error: 'its check fails' });
  const why = /cannot promote .* not healthy: 1 of 2 web jobs are up \(its check fails\); .*flynn deployment abort/;
  await assert.rejects(act('promote', id), isCode('conflict', why));
  assert.equal((await get(id)).state, 'canary');
  await say({});
  assert.equal((await act('promote', id)).state, 'running');
  await reach(id, 'complete');
});

test('a canary is promoted by itself when it was healthy for as long as the app asks', async () => {
  const { second } = await prepare('alone', 3, { strategy: 'canary', autoPromoteMs: 1_000 });
  const id = await begin('alone', second);
  await reach(id, 'complete');
  await world.jobsOf('alone', 3, ({ releaseId }) => releaseId === second.id);
});

test('the time until a canary is promoted by itself begins anew when it was not healthy, and with another worker', async () => {
  const hourMs = 3_600_000;
  const { second } = await prepare('anew', 3, { strategy: 'canary', autoPromoteMs: hourMs });
  const id = await begin('anew', second);
  await reach(id, 'canary');
  const [job] = await world.jobsOf('anew', 1, ({ releaseId }) => releaseId === second.id);
  const key = cellKeys.jobStatus(job?.hostId ?? '', job?.id ?? '');
  const status = jobStatusSchema.parse(JSON.parse((await world.store.get(key))?.value ?? ''));
  const startMs = Date.now() + hourMs;
  let nowMs = startMs;
  const now = () => nowMs;
  const step = async (afterMs: number, upTimes: UpTimes, state: JobStatus['state'] = 'running') => {
    const { revision } = await world.store.transact({
      then: [{ put: key, value: JSON.stringify({ ...status, state }) }],
    });
    await world.deps.cell.statuses.reached(revision);
    nowMs = startMs + afterMs;
    const deps = { ...world.deps, now };
    await stepDeployment(deps, id, { signal: new AbortController().signal, upTimes, word: new RoutersWord() });
    return (await get(id)).state;
  };
  const upTimes = new UpTimes(now);
  assert.equal(await step(0, upTimes), 'canary');
  assert.equal(await step(hourMs - 5_000, upTimes), 'canary');
  assert.equal(await step(hourMs - 4_000, upTimes, 'starting'), 'canary');
  assert.equal(await step(hourMs - 3_000, upTimes), 'canary');
  assert.equal(await step(hourMs, upTimes), 'canary', 'it was ill');
  assert.equal(
    await step(2 * hourMs - 3_000, new UpTimes(now)),
    'canary',
    'another worker has not seen it healthy yet',
  );
  assert.notEqual(await step(2 * hourMs - 3_000, upTimes), 'canary');
  await reach(id, 'complete');
});

test('a canary on hold whose host is away for a moment gets the time that any job has to come back', async () => {
  const { second } = await prepare('held', 1, { strategy: 'canary', deadlineMs: 60_000 });
  const id = await begin('held', second);
  await reach(id, 'canary');
  const [job] = await world.jobsOf('held', 1, ({ releaseId }) => releaseId === second.id);
  const key = cellKeys.jobStatus(job?.hostId ?? '', job?.id ?? '');
  const status = jobStatusSchema.parse(JSON.parse((await world.store.get(key))?.value ?? ''));
  const daysMs = 3 * 86_400_000;
  let aheadMs = daysMs;
  const now = () => Date.now() + aheadMs;
  const upTimes = new UpTimes(now);
  const step = (more: number, times: UpTimes) => {
    aheadMs = daysMs + more;
    const { signal } = new AbortController();
    return stepDeployment({ ...world.deps, now }, id, { signal, upTimes: times, word: new RoutersWord() });
  };
  await step(0, upTimes);
  const value = JSON.stringify({ ...status, state: 'starting' });
  const { revision } = await world.store.transact({ then: [{ put: key, value }] });
  await world.deps.cell.statuses.reached(revision);
  await step(1_000, upTimes);
  assert.equal((await get(id)).state, 'canary');
  await step(2_000, new UpTimes(now));
  assert.equal((await get(id)).state, 'canary', 'another worker gives it that time, too');
  await step(3_600_000, upTimes);
  assert.match((await reach(id, 'failed')).error ?? '', /nothing more came up within/);
});

test('a job has to stay up for as long as the app asks', async () => {
  const { second } = await prepare('steady', 1, { minHealthyMs: 300 });
  const startedMs = performance.now();
  assert.equal((await world.deploy('steady', second.id)).state, 'complete');
  // The clock that it goes by counts whole milliseconds.
  assert.ok(performance.now() - startedMs >= 299);
});

test('complete is when the last old job has ended; meanwhile the new release is live and can be scaled', async () => {
  world.setBehaviour(() => ({ is: 'run', lingers: true }));
  const { first, second } = await prepare('slow', 1, {});
  world.setBehaviour(() => ({ is: 'run' }));
  const id = await begin('slow', second);
  await reach(id, 'finishing');
  const [old] = await world.jobsOf('slow', 1, ({ releaseId }) => releaseId === first.id);
  assert.equal((await world.client.call(apps.get, { params: { app: 'slow' } })).releaseId, second.id);
  await assert.rejects(abort(id), isCode('conflict', /is live, .* old jobs, .* go back with: flynn rollback/));
  // It is being stopped already: there is nothing that would end it sooner.
  await world.client.call(jobs.stop, { params: { app: 'slow', job: old?.id ?? '' } });
  const scaled = { params: { app: 'slow', release: second.id }, body: { processes: { web: 3 } } };
  await world.client.call(formations.put, scaled);
  await world.jobsOf('slow', 3, ({ releaseId, state }) => releaseId === second.id && state === 'running');
  await assert.rejects(
    begin('slow', first),
    isCode('conflict', /under way: wait .*; it waits for old jobs, which end/),
  );
  await world.restartWorker();
  assert.equal((await get(id)).state, 'finishing');
  const host = world.hosts.find(({ id: hostId }) => hostId === old?.hostId);
  await host?.end(old?.id ?? '', 0);
  assert.deepEqual((await reach(id, 'complete')).progress, { web: { wanted: 1, up: 3, old: 0 } });
  await world.jobsOf('slow', 3);
});

test('settings of a rollout: what is left out stays, null takes a limit away', () => {
  const before = rolloutSchema.parse({ strategy: 'canary', batchSize: 3, deadlineMs: 5_000 });
  assert.deepEqual(changedRollout(before, { canaries: 2 }), { ...before, canaries: 2 });
  const { batchSize: _size, ...unlimited } = before;
  assert.deepEqual(changedRollout(before, { batchSize: null }), unlimited);
  const alone = changedRollout(before, { autoPromoteMs: 60_000 });
  assert.deepEqual(changedRollout(alone, { canaries: 2 }), { ...before, autoPromoteMs: 60_000, canaries: 2 });
  assert.deepEqual(changedRollout(alone, { autoPromoteMs: null }), before);
});

test('time on hold does not count, and a canary that was paused keeps when it began to wait', () => {
  const canary = { state: 'canary', progress: {}, heldSince: '2026-01-01T00:00:00.000Z' } as const;
  const paused = changedStatus(canary, 'pause', { at: '2026-01-01T00:00:10.000Z' });
  assert.deepEqual(paused, { ...canary, state: 'paused' });
  const resumed = changedStatus(paused, 'resume', { at: '2026-01-01T00:00:30.000Z' });
  assert.equal(resumed.heldMs, 30_000);
  assert.equal(resumed.heldSince, undefined);
  assert.equal(changedStatus(resumed, 'promote', { at: '2026-01-01T00:01:00.000Z' }).heldMs, 30_000);
});
