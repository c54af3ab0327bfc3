/** A whole controller with simulated hosts, routers and time: counts follow what there is to do, and what people do meanwhile. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { Metrics } from '@flynn/kit/metrics';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments } from '../api.ts';
import { audit } from '../audit/api.ts';
import { generic } from '../generic/api.ts';
import { autoscales } from './api.ts';
import { autoscaleFigures } from './figures.ts';
import type { Job } from '../model.ts';
import { sleepMs } from './looks.ts';
import { autoscaleType } from './resource.ts';
import { everyMs, params, startWorld, waiting } from './scaler-fixture.ts';

test('jobs come with what there is to do and go once it has been less for a while, and it is told why', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 6, cpuPercent: 80 });
  // Of half a processor for each, 80 % are 0.4: three jobs have enough to do.
  world.cores = 1.2;
  const up = await world.pass(12);
  assert.deepEqual(up.slice(0, 3), [1, 1, 1], 'half a window is not seen yet');
  assert.equal(up.at(3), 3);
  assert.deepEqual([...new Set(up.slice(4))], [3], 'and there it stays');
  const { last, seen, held, changes } = await world.state();
  assert.deepEqual([last?.from, last?.to, last?.why, changes], [1, 3, '3 wanted: a job has cpu 240% of 80%', 1]);
  assert.match(seen?.figures ?? '', /^cpu (?:79|80|81)% of 80%$/);
  assert.equal(held, undefined);
  world.cores = 0.3;
  const down = await world.pass(45);
  const first = down.indexOf(1);
  assert.ok(first >= 30 && first < 42, `fewer after five minutes and what the window needs: ${down.join(' ')}`);
  assert.deepEqual(
    down.slice(first),
    down.slice(first).map(() => 1),
  );
  const entries = await world.controller.client.call(audit.list, { query: { app: 'shop', user: 'autoscale' } });
  assert.deepEqual(
    [entries[0], entries.at(-1)].map((entry) => entry?.params['count']),
    ['web=1', 'web=3'],
  );
  assert.equal(entries.at(-1)?.params['why'], '3 wanted: a job has cpu 240% of 80%');
  assert.deepEqual(entries.at(-1)?.changes[0]?.after, { processes: { web: 3, clock: 0 } });
});

test('who takes over begins with nothing, and takes no jobs away before it has seen as long as anybody', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 6, cpuPercent: 80 });
  world.cores = 1.2;
  await world.pass(5);
  world.cores = 0.3;
  await world.pass(25);
  world.replaceScaler();
  const counts = await world.pass(40);
  assert.deepEqual([...new Set(counts.slice(0, 30))], [3]);
  assert.equal(counts.at(-1), 1);
});

test('a clock that was hours ahead keeps nobody from scaling once it is right', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 6, cpuPercent: 80, downAfterMs: 0 });
  world.cores = 1.2;
  assert.equal((await world.pass(5)).at(-1), 3);
  world.nowMs -= 6 * 3_600_000;
  const nextMs = await world.look();
  assert.ok(nextMs - world.nowMs <= everyMs, `the next look is in ${nextMs - world.nowMs} ms`);
  world.cores = 2;
  assert.equal((await world.pass(6)).at(-1), 5);
  world.cores = 0.3;
  assert.equal((await world.pass(12)).at(-1), 1);
});

test('a clock that is put right in the middle of a look puts the next one off by no more than a look', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 6, cpuPercent: 80, downAfterMs: 0 });
  world.cores = 1.2;
  assert.equal((await world.pass(5)).at(-1), 3);
  const rightMs = world.nowMs + everyMs;
  world.nowMs = rightMs + 6 * 3_600_000;
  for (const host of world.controller.hosts) {
    const tell = host.cpuSecondsOf;
    host.cpuSecondsOf = (jobId) => {
      if (world.nowMs > rightMs + 3_600_000) world.nowMs = rightMs;
      return tell(jobId);
    };
  }
  const nextMs = await world.look();
  assert.equal(world.nowMs, rightMs, 'it was put right meanwhile');
  const sleptMs = sleepMs(nextMs, world.nowMs);
  assert.ok(sleptMs <= everyMs, `the next look is in ${sleptMs} ms`);
  world.nowMs += sleptMs;
  assert.ok((await world.look()) - world.nowMs <= everyMs, 'and from then on it goes by the clock that is right');
});

test('a host that says nothing keeps the jobs there are, and is named; more are still added', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 8, cpuPercent: 80, downAfterMs: 0 });
  await world.scale(4);
  await world.controller.jobsOf('shop', 4);
  world.cores = 1.6;
  await world.pass(4);
  const [silent] = world.controller.hosts;
  assert.ok(silent);
  const tell = silent.cpuSecondsOf;
  silent.cpuSecondsOf = () => {
    throw new Error('its engine is away');
  };
  world.cores = 0.2;
  assert.deepEqual([...new Set(await world.pass(12))], [4]);
  const { held } = await world.state();
  assert.equal(held?.reason, 'blind');
  assert.match(held.why, /^host host1 did not tell: /);
  world.cores = 6;
  assert.ok(((await world.pass(6)).at(-1) ?? 0) > 4, 'what the others do is enough for more');
  silent.cpuSecondsOf = tell;
  world.cores = 0.2;
  assert.equal((await world.pass(14)).at(-1), 1);
  assert.equal((await world.state()).held, undefined);
});

test('what people scale is where it begins anew; none is off, and what is outside of the range is refused', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 2, max: 6, cpuPercent: 80 });
  assert.deepEqual(await world.pass(1), [2], 'into its range at once');
  world.cores = 0.8;
  await world.pass(6);
  await world.scale(5);
  await world.controller.jobsOf('shop', 5);
  const counts = await world.pass(45);
  assert.deepEqual([...new Set(counts.slice(0, 30))], [5], 'what was asked for stays for a while');
  assert.equal(counts.at(-1), 2);
  const tooMany = /web=9: web of shop is scaled by itself, from 2 to 6 jobs; .*set web --max 9; .*remove web/;
  await assert.rejects(world.scale(9), (error) => hasCode(error, 'invalid') && tooMany.test(error.message));
  await assert.rejects(world.scale(1), (error) => hasCode(error, 'invalid') && /--min 1/.test(error.message));
  await world.scale(0);
  world.cores = 5;
  assert.deepEqual(await world.pass(8), [0, 0, 0, 0, 0, 0, 0, 0]);
  assert.equal((await world.state()).held?.reason, 'off');
  await world.scale(2);
  await world.controller.jobsOf('shop', 2);
  assert.ok(((await world.pass(6)).at(-1) ?? 0) > 2);
  await world.controller.client.call(autoscales.remove, { params });
  await world.scale(9);
  await world.controller.jobsOf('shop', 9);
});

test('while jobs wait for a host no more are wished for', async (t) => {
  const world = await startWorld(t, { hosts: 1, memoryBytes: 4 * 1024 ** 3 });
  await world.set({ min: 1, max: 100, cpuPercent: 80 });
  world.cores = 40;
  const isSettled = ({ state, error }: Job) => state === 'running' || /memory/.test(error ?? '');
  const counts = await world.pass(12, async (count) => {
    await world.controller.jobsOf('shop', count, isSettled);
  });
  const room = world.running().length;
  const beyond = counts.filter((count) => count > room);
  assert.ok(
    beyond.length > 3 && new Set(beyond).size === 1,
    `one step beyond the room, and no more: ${counts.join(' ')}`,
  );
  const { held } = await world.state();
  assert.equal(held?.reason, 'full');
  assert.match(held.why, /^more are wanted, and \d of those there are to be wait for a host: .*memory/);
});

test('a deployment has its counts to itself; the next release begins with what the last one had', async (t) => {
  const world = await startWorld(t);
  const { client } = world.controller;
  await world.set({ min: 1, max: 6, cpuPercent: 80 });
  world.cores = 1.2;
  await world.pass(5);
  const next = await world.controller.makeRelease('shop', { web: { cpuMillis: 500, env: { A: '2' } }, clock: {} });
  // Nobody carries it out: the worker is away.
  const { id } = await client.call(deployments.create, { params, body: { releaseId: next.id } });
  world.cores = 3;
  await waitFor(() => world.controller.deps.deployments.snapshot.entries.has(id), {
    what: 'the deployment',
    ...waiting,
  });
  assert.deepEqual([...new Set(await world.pass(8, async () => {}))], [3]);
  assert.equal((await world.state()).held?.reason, 'deploying');
  await world.controller.restartWorker();
  await world.controller.endOf(id);
  await world.controller.stopWorker();
  await world.controller.jobsOf('shop', 3);
  const counts = await world.pass(8);
  assert.deepEqual(counts.slice(0, 3), [3, 3, 3], 'of new jobs nothing is known yet');
  assert.equal(counts.at(-1), 6);
});

test('a host that answers now and then is told as one that does not, since when that began', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 8, cpuPercent: 80 });
  world.cores = 0.3;
  await world.pass(6);
  const host = world.controller.hosts.find((one) => one.statuses().some(({ state }) => state === 'running'));
  assert.ok(host);
  const tell = host.cpuSecondsOf;
  const since = new Set<string | undefined>();
  for (let look = 0; look < 6; look += 1) {
    host.cpuSecondsOf = (jobId) => {
      if (look % 2 === 0) throw new Error('its engine is away');
      return tell?.(jobId) ?? 0;
    };
    await world.pass(1);
    since.add((await world.state()).held?.since);
  }
  assert.equal(since.size, 1);
  assert.ok(!since.has(undefined));
  host.cpuSecondsOf = tell;
  await world.pass(5);
  assert.equal((await world.state()).held, undefined);
});

test('how many are wanted is a figure only while it is known', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 8, cpuPercent: 80 });
  world.cores = 0.3;
  await world.pass(6);
  const metrics = new Metrics();
  const figures = await autoscaleFigures(world.controller.deps.resources, metrics);
  t.after(() => figures[Symbol.asyncDispose]());
  const isTold = async () => /^flynn_autoscale_wanted\{.*type="web".*\} 1$/m.test(await metrics.text());
  assert.ok(await isTold());
  await world.scale(0);
  await world.pass(1);
  await waitFor(async () => !(await isTold()), { what: 'the figure to go', ...waiting });
});

test('after a gap in what was seen nothing is known of how long fewer would have done', async (t) => {
  const world = await startWorld(t);
  await world.set({ min: 1, max: 6, cpuPercent: 80, downAfterMs: 60_000 });
  world.cores = 1.2;
  await world.pass(5);
  assert.equal(await world.count(), 3);
  world.cores = 0.1;
  await world.pass(4);
  world.nowMs += 200_000;
  const counts = await world.pass(14);
  const first = counts.indexOf(1);
  assert.ok(first >= 6, `a whole span after the gap: ${counts.join(' ')}`);
});

test('what is said of an app that is gone goes too, and what nothing can be done for is told', async (t) => {
  const world = await startWorld(t);
  const { client, deps } = world.controller;
  for (const [type, body, pattern] of [
    ['clok', { max: 3, cpuPercent: 50 }, /no process type "clok".*did you mean clock/],
    ['web', { max: 3 }, /say what it is scaled by/],
    ['web', { cpuPercent: 50 }, /max/],
    ['web', { min: 5, max: 3, cpuPercent: 50 }, /at least 5 and at most 3/],
  ] as const) {
    const asked = client.call(autoscales.set, { params: { app: 'shop', type }, body });
    await assert.rejects(asked, (error) => hasCode(error, 'invalid') && pattern.test(error.message), String(pattern));
  }
  await assert.rejects(client.call(autoscales.remove, { params }), (error) => hasCode(error, 'not_found'));
  const left = { id: 'k3v9x2m1q8aa-web', spec: { appId: 'k3v9x2m1q8aa', type: 'web', max: 3, cpuPercent: 50 } };
  const owner = { type: 'app', id: 'k3v9x2m1q8aa' };
  await deps.resources.commit([deps.resources.draft(autoscaleType, { ...left, owner }).piece]);
  await world.pass(1);
  assert.equal(await deps.resources.find(autoscaleType, left.id), undefined);
  const { appId } = await world.set({ max: 3, cpuPercent: 50 });
  await world.controller.restartWorker();
  await client.call(apps.remove, { params });
  assert.deepEqual(await deps.resources.list(autoscaleType, { owner: { type: 'app', id: appId } }), []);
});

test('an object of the kind is applied, told, exported and deleted like any', async (t) => {
  const world = await startWorld(t);
  const { client } = world.controller;
  const kind = { group: 'flynn', version: 'v1', kind: 'Autoscale' };
  const apply = (body: object, query = {}) => client.call(generic.apply, { params: kind, body, query });
  const wanted = { name: 'shop/web', owner: 'app/shop', spec: { max: 4, requestsPerSecond: 20 } };
  assert.equal((await apply(wanted)).outcome, 'created');
  assert.equal((await apply(wanted)).outcome, 'unchanged');
  const { changes } = await apply({ name: 'shop/web', spec: { max: 5, min: 2 } });
  assert.deepEqual(
    changes.map(({ path }) => path),
    ['spec.max', 'spec.min'],
  );
  const shown = await client.call(generic.get, { params: { ...kind, name: 'shop/web' } });
  assert.deepEqual(shown.spec, { min: 2, max: 5, requestsPerSecond: 20, windowMs: 60_000, downAfterMs: 300_000 });
  assert.deepEqual([shown.owner, shown.name], ['app/shop', 'shop/web']);
  assert.equal((await apply({ ...shown })).outcome, 'unchanged', 'what was got can be put back');
  const isInvalid = (pattern: RegExp) => (error: unknown) => hasCode(error, 'invalid') && pattern.test(error.message);
  await assert.rejects(apply({ ...wanted, name: 'web' }), isInvalid(/like shop\/web/));
  await assert.rejects(apply({ name: 'shop/clock', spec: wanted.spec }), isInvalid(/owner: app\/shop/));
  await client.call(apps.create, { body: { name: 'blog' } });
  await assert.rejects(apply({ ...wanted, owner: 'app/blog', name: 'shop/clock' }), isInvalid(/another app/));
  const later = { name: 'later/web', owner: 'app/later', spec: wanted.spec };
  const planned = await apply(later, { dryRun: true, assume: ['app/later'] });
  assert.equal(planned.outcome, 'created');
  // What the same files give the app may have types that the live release has not.
  const beside = { name: 'shop/later', owner: 'app/shop', spec: wanted.spec };
  const assume = ['app/shop'];
  assert.equal((await apply(beside, { dryRun: true, assume })).outcome, 'created');
  await assert.rejects(apply(beside, { dryRun: true }), isInvalid(/no process type "later"/));
  const count = { name: 'shop', spec: { processes: { web: 9 } } };
  const formation = { params: { ...kind, kind: 'Formation' }, body: count, query: { dryRun: true } };
  await assert.rejects(client.call(generic.apply, formation), isInvalid(/from 2 to 5/));
  const app = { name: 'shop', spec: { processes: { web: { count: 9 } } } };
  const ofApp = { params: { ...kind, kind: 'App' }, body: app, query: { dryRun: true } };
  const { notes } = await client.call(generic.apply, ofApp);
  assert.deepEqual(
    notes,
    ['web is scaled by itself, from 2 to 5 jobs: its count of 9 is brought into that'],
    'the same files may give another range',
  );
  await client.call(generic.apply, { ...ofApp, query: {} });
  assert.equal(await world.count(), 5, 'no jobs that would be stopped at once');
  await client.call(generic.apply, { ...ofApp, query: { assume: ['app/shop', 'autoscale/shop/web'] } });
  assert.equal(await world.count(), 9);
  assert.equal((await world.pass(1)).at(-1), 5);
  await client.call(generic.remove, { params: { ...kind, name: 'shop/web' } });
  assert.deepEqual(await client.call(autoscales.list, { params }), []);
});
