/** Cron against a whole controller: once per tick whoever looks, through deployments, by hand, and gone with its app. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { resourceKey } from '@flynn/resource/keys';
import { createMemoryStore } from '@flynn/store/memory';
import { apps, jobs, releases } from '../api.ts';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import { crons } from './api.ts';
import type { Job } from '../model.ts';
import type { CronEntry } from '../apps/app-json.ts';
import { lastTick, parseSchedule } from './schedule.ts';
import { stepCron } from './steps.ts';
import type { Cron } from './model.ts';
import { cronType, ownedBy } from '../resources.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

const signal = new AbortController().signal;
/** Half an hour away, so that no tick of the real clock comes while these run. */
const minute = (new Date().getUTCMinutes() + 30) % 60;
const hourly: CronEntry = { schedule: `${minute} * * * *`, command: 'sweep', overlap: 'forbid' };
const hourMs = 60 * 60_000;

/** An app whose live release has these lines. */
async function prepare(world: TestController, cron: CronEntry[]): Promise<string> {
  const { app, release } = await world.deployApp('shop', { web: {} });
  const body = { cron, ...(release.artifactId === undefined ? {} : { artifactId: release.artifactId }) };
  const next = await world.client.call(releases.create, { params: { app: 'shop' }, body });
  assert.equal((await world.deploy('shop', next.id)).state, 'complete');
  return app.id;
}

const list = ({ client }: TestController) => client.call(crons.list, { params: { app: 'shop' } });
const cronJobs = async ({ client }: TestController) =>
  (await client.call(jobs.list, { params: { app: 'shop' }, query: { all: true } })).filter(
    ({ type }) => type === 'cron',
  );

/** One look at the lines as they are now, at a moment. */
async function look({ deps }: TestController, appId: string, nowMs: number): Promise<void> {
  const lines = await deps.resources.list(cronType, { owner: ownedBy(appId), signal });
  const statusesOf = (id: string) => statusesOfApp(deps.cell, id);
  await stepCron({ ...deps, now: () => nowMs }, appId, { signal, linesOf: () => lines, statusesOf });
}

/**
 * Looks at the lines so many hours from now, until the tick of that hour is dealt with: the worker may be faster, or in
 * between.
 */
async function stepAt(world: TestController, appId: string, hours: number): Promise<Cron> {
  const nowMs = Date.now() + hours * hourMs;
  const tickMs = lastTick(parseSchedule(hourly.schedule), { afterMs: 0, untilMs: nowMs }) ?? 0;
  const tick = new Date(tickMs).toISOString();
  return waitFor(
    async () => {
      await look(world, appId, nowMs);
      const [line] = await list(world);
      return line?.runs[0]?.tick === tick ? line : undefined;
    },
    { what: `the tick ${tick}`, deadlineMs: 60_000, intervalMs: 5 },
  );
}

/** The lines once the condition holds. */
async function linesWhen(world: TestController, what: string, holds: (lines: Cron[]) => boolean): Promise<Cron[]> {
  return waitFor(
    async () => {
      const lines = await list(world);
      return holds(lines) ? lines : undefined;
    },
    { what, deadlineMs: 60_000, intervalMs: 5 },
  );
}

test('two controllers that look at once run a tick once, and what was missed once', async () => {
  await using world = await startTestController();
  world.setBehaviour((job) => (job.template.meta['flynn.type'] === 'cron' ? { is: 'exit', code: 0 } : { is: 'run' }));
  const appId = await prepare(world, [hourly]);
  await linesWhen(world, 'the line', (lines) => lines.length === 1);
  await Promise.all(Array.from({ length: 8 }, () => look(world, appId, Date.now() + 5 * hourMs)));
  await stepAt(world, appId, 5);
  const [line] = await linesWhen(world, 'the end of the run', ([one]) => one?.runs[0]?.state === 'done');
  assert.equal(line?.runs.length, 1, 'of five ticks missed one is made up for, once');
  assert.equal((await cronJobs(world)).length, 1);
  await look(world, appId, Date.now() + 4 * hourMs);
  assert.equal((await cronJobs(world)).length, 1, 'a clock that is put back runs nothing twice');
});

test('a line stays the same through a deployment, its run goes on, and the next is the new release’s', async () => {
  await using world = await startTestController();
  const appId = await prepare(world, [hourly]);
  await linesWhen(world, 'the line', (lines) => lines.length === 1);
  await stepAt(world, appId, 1);
  const [running] = await world.jobsOf('shop', 1, ({ type, state }) => type === 'cron' && state === 'running');
  await linesWhen(world, 'its job', ([one]) => one?.runs[0]?.jobId === running?.id);
  const next = await world.client.call(releases.create, { params: { app: 'shop' }, body: { env: { A: '1' } } });
  assert.equal((await world.deploy('shop', next.id)).state, 'complete');
  const [line] = await list(world);
  assert.equal(line?.runs[0]?.state, 'running');
  await world.jobsOf('shop', 1, ({ id, state }) => id === running?.id && state === 'running');
  assert.equal((await stepAt(world, appId, 2)).runs[0]?.state, 'skipped', 'what still runs is not joined');
  const host = world.hosts.find(({ id }) => id === running?.hostId);
  await host?.end(running?.id ?? '', 3);
  await linesWhen(world, 'the failure', ([one]) => one?.runs.some(({ exitCode }) => exitCode === 3) ?? false);
  const after = await stepAt(world, appId, 3);
  assert.deepEqual(
    after.runs.map(({ state }) => state),
    ['running', 'skipped', 'failed'],
  );
  const [newest] = await world.jobsOf('shop', 1, ({ type, state }) => type === 'cron' && state === 'running');
  assert.equal(newest?.releaseId, next.id);
});

test('a line that ran by a clock that was a year ahead goes on by the right one', async () => {
  await using world = await startTestController();
  world.setBehaviour((job) => (job.template.meta['flynn.type'] === 'cron' ? { is: 'exit', code: 0 } : { is: 'run' }));
  const appId = await prepare(world, [hourly]);
  await linesWhen(world, 'the line', (lines) => lines.length === 1);
  await look(world, appId, Date.now() + 365 * 24 * hourMs);
  await linesWhen(world, 'the run', ([line]) => line?.runs.length === 1);
  const handled = async () => (await world.deps.resources.list(cronType, { signal }))[0]?.status.handledMs ?? Infinity;
  await waitFor(async () => (await handled()) <= Date.now(), { what: 'a look', deadlineMs: 60_000, intervalMs: 5 });
  assert.equal((await stepAt(world, appId, 1)).runs.length, 2);
});

test('however many ticks are skipped, what still runs is known, keeps others from beginning, and its end is told', async () => {
  await using world = await startTestController();
  const appId = await prepare(world, [hourly]);
  await linesWhen(world, 'the line', (lines) => lines.length === 1);
  await stepAt(world, appId, 1);
  const [running] = await world.jobsOf('shop', 1, ({ type, state }) => type === 'cron' && state === 'running');
  for (let hours = 2; hours <= 23; hours += 1) await stepAt(world, appId, hours);
  const [line] = await list(world);
  assert.deepEqual(
    line?.runs.map(({ state, skips }) => [state, skips]),
    [
      ['skipped', 22],
      ['running', undefined],
    ],
  );
  assert.equal((await cronJobs(world)).length, 1);
  const host = world.hosts.find(({ id }) => id === running?.hostId);
  await host?.end(running?.id ?? '', 3);
  await linesWhen(world, 'the failure', ([one]) => one?.runs.some(({ exitCode }) => exitCode === 3) ?? false);
});

test('a line that is replaced stops what still ran', async () => {
  await using world = await startTestController();
  const appId = await prepare(world, [{ ...hourly, overlap: 'replace' }]);
  await linesWhen(world, 'the line', (lines) => lines.length === 1);
  for (const hours of [1, 2]) {
    await stepAt(world, appId, hours);
    await world.jobsOf('shop', 1, ({ type, state }) => type === 'cron' && state === 'running');
  }
  assert.equal((await cronJobs(world)).length, 2);
});

test('of a line that is replaced a run that does not end is told to stop once, and is known until it has', async () => {
  await using world = await startTestController();
  world.setBehaviour((job) =>
    job.template.meta['flynn.type'] === 'cron' ? { is: 'run', lingers: true } : { is: 'run' },
  );
  const appId = await prepare(world, [{ ...hourly, overlap: 'replace' }]);
  await linesWhen(world, 'the line', (lines) => lines.length === 1);
  for (const hours of [1, 2, 3]) {
    await stepAt(world, appId, hours);
    // One that was never begun ends at once when it is told to stop.
    const started = ({ type, state }: Job) => type === 'cron' && (state === 'running' || state === 'stopping');
    await world.jobsOf('shop', hours, started);
  }
  const [line] = await list(world);
  const replacedAt = line?.runs.map((run) => run.replacedAt) ?? [];
  assert.deepEqual(
    line?.runs.map((run) => [run.state, run.replacedAt !== undefined]),
    [
      ['running', false],
      ['running', true],
      ['running', true],
    ],
  );
  const again = await stepAt(world, appId, 4);
  assert.deepEqual(
    again.runs.slice(2).map((run) => run.replacedAt),
    replacedAt.slice(1),
    'told once',
  );
});

test('a look at a line that runs goes through the jobs of its app alone, once', async () => {
  await using world = await startTestController();
  const appId = await prepare(world, [hourly]);
  await linesWhen(world, 'the line', (lines) => lines.length === 1);
  await stepAt(world, appId, 1);
  await world.jobsOf('shop', 1, ({ type, state }) => type === 'cron' && state === 'running');
  const lines = await world.deps.resources.list(cronType, { owner: ownedBy(appId), signal });
  const { cell } = world.deps;
  const statuses = new Proxy(cell.statuses, {
    get(target, name) {
      if (name === 'snapshot') throw new Error('all jobs of the cluster were gone through');
      return Reflect.get(target, name) as unknown;
    },
  });
  const asked: string[] = [];
  const statusesOf = (id: string) => {
    asked.push(id);
    return statusesOfApp(cell, id);
  };
  const deps = { ...world.deps, cell: { ...cell, statuses } };
  await stepCron(deps, appId, { signal, linesOf: () => lines, statusesOf });
  assert.deepEqual(asked, [appId]);
});

test('by hand: run now, pause, resume without making up for what passed; an unknown one is told', async () => {
  await using world = await startTestController();
  const appId = await prepare(world, [hourly]);
  const [line] = await linesWhen(world, 'the line', (lines) => lines.length === 1);
  const params = { app: 'shop', cron: line?.id ?? '' };
  const ran = await world.client.call(crons.run, { params });
  assert.equal(ran.runs[0]?.tick, undefined);
  await world.jobsOf('shop', 1, ({ workloadId }) => workloadId === ran.runs[0]?.workloadId);
  const paused = await world.client.call(crons.pause, { params });
  assert.deepEqual([paused.isPaused, paused.nextAt], [true, undefined]);
  await look(world, appId, Date.now() + 5 * hourMs);
  assert.equal((await list(world))[0]?.runs.length, 1);
  assert.equal((await world.client.call(crons.resume, { params })).isPaused, false);
  await assert.rejects(
    world.client.call(crons.run, { params: { app: 'shop', cron: 'zz' } }),
    (error: unknown) => hasCode(error, 'not_found') && /no line of cron "zz" of shop/.test(error.message),
  );
});

test('a run by hand of an app that is deleted before it is written is refused', async () => {
  const store = createMemoryStore();
  await using world = await startTestController({ store });
  const appId = await prepare(world, [hourly]);
  const [line] = await linesWhen(world, 'the line', (lines) => lines.length === 1);
  const transact = store.transact.bind(store);
  let hasBegun: boolean | undefined;
  store.transact = async (transaction, options) => {
    if (!JSON.stringify(transaction.then).includes(`${appId}-cron-`)) return transact(transaction, options);
    store.transact = transact;
    const key = resourceKey('app', appId);
    const app: object = JSON.parse((await store.get(key))?.value ?? '{}');
    await transact({
      then: [{ put: key, value: JSON.stringify({ ...app, deletingSince: new Date().toISOString() }) }],
    });
    const result = await transact(transaction, options);
    hasBegun = result.succeeded;
    return result;
  };
  await assert.rejects(
    world.client.call(crons.run, { params: { app: 'shop', cron: line?.id ?? '' } }),
    (error: unknown) => hasCode(error, 'conflict', 'not_found') && /being deleted|no app "shop"/.test(error.message),
  );
  assert.equal(hasBegun, false);
});

test('lines that a release has no more are gone, and with the app all of them', async () => {
  await using world = await startTestController();
  const appId = await prepare(world, [hourly, { ...hourly, command: 'other' }]);
  await linesWhen(world, 'both lines', (lines) => lines.length === 2);
  const next = await world.client.call(releases.create, { params: { app: 'shop' }, body: { cron: [hourly] } });
  await world.deploy('shop', next.id);
  await linesWhen(world, 'one line', (lines) => lines.length === 1 && lines[0]?.command === 'sweep');
  await world.client.call(apps.remove, { params: { app: 'shop' } }, { timeoutMs: 30_000 });
  const left = (await world.store.list('/flynn/')).entries.filter(({ key }) => key.includes(appId));
  assert.deepEqual(
    left.map(({ key }) => key),
    [],
  );
});

test('a release with a schedule that says nothing is refused', async () => {
  await using world = await startTestController();
  await world.client.call(apps.create, { body: { name: 'shop' } });
  await assert.rejects(
    world.client.call(releases.create, {
      params: { app: 'shop' },
      body: { cron: [{ ...hourly, schedule: '99 * * * *' }] },
    }),
    (error: unknown) => hasCode(error, 'invalid') && /has "99" as minute/.test(error.message),
  );
});

test('what a release says otherwise of a line is so from then on, and it stays the same line', async () => {
  await using world = await startTestController();
  await prepare(world, [hourly]);
  const [before] = await linesWhen(world, 'the line', (lines) => lines.length === 1);
  const params = { app: 'shop' };
  await world.client.call(crons.pause, { params: { ...params, cron: before?.id ?? '' } });
  const next = await world.client.call(releases.create, {
    params,
    body: { cron: [{ ...hourly, overlap: 'replace' }] },
  });
  assert.equal((await world.deploy('shop', next.id)).state, 'complete');
  const [line] = await linesWhen(world, 'its other overlap', ([one]) => one?.overlap === 'replace');
  assert.deepEqual([line?.id, line?.isPaused], [before?.id, true]);
});
