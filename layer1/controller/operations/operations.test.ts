import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { cellKeys } from '@flynn/scheduler/cell';
import { workloadChange } from '@flynn/scheduler/evaluations';
import { apps, jobs } from '../api.ts';
import { operations } from './api.ts';
import { buildWorkloadId } from '../builds/compile.ts';
import type { Operation } from '../model.ts';
import { OperationWatch, silenceMs, stopLeftBuilds } from './watch.ts';
import { operationType } from '../resources.ts';
import { TestRunner } from './test-runner.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const body = (pushId: string) => ({ pushId, sourceDigest: `sha256:${pushId}`, commit: 'c0ffee', branch: 'main' });
const newApp = async (name: string) => {
  await world.client.call(apps.create, { body: { name } });
  return name;
};
const push = (app: string, pushId: string) =>
  world.client.call(operations.push, { params: { app }, body: body(pushId) });
const registered = new Map<string, Promise<TestRunner>>();
/** One of the platform's runners. */
const runner = (id: string): Promise<TestRunner> => {
  const join = async () => {
    const one = new TestRunner({ client: world.client, id, clusterKey: world.key });
    await one.register();
    return one;
  };
  const known = registered.get(id) ?? join();
  registered.set(id, known);
  return known;
};
const claim = async (id: string): Promise<Operation> => (await runner(id)).claim();
const finish = async (id: string, operation: string, state: 'complete' | 'failed' | 'cancelled', extra = {}) =>
  (await runner(id)).finish(operation, state, extra);
const append = async (id: string, operation: string, offset: number, lines: string[]) =>
  (await runner(id)).append(operation, offset, lines);
const get = (operation: string) => world.client.call(operations.get, { params: { operation } });

async function readLog(operation: string, lastEventId?: string): Promise<{ lines: string[]; end: Operation }> {
  const lines: string[] = [];
  const options = { signal: AbortSignal.timeout(60_000), ...(lastEventId === undefined ? {} : { lastEventId }) };
  for await (const { event, data } of world.client.events(operations.log, { params: { operation } }, options)) {
    if (event === 'end') return { lines, end: data as Operation };
    lines.push((data as { text: string }).text);
  }
  return assert.fail('the log ended without its end');
}

test('a push that may wait so long fails when no runner began its build by then, and what follows goes with it', async () => {
  const app = await newApp('impatient');
  const params = { app };
  const call = { params, body: { ...body('in-time'), expiresInMs: 60_000 } };
  const before = world.deps.now();
  const [build, ...rest] = await world.client.call(operations.push, call);
  const at = Date.parse(build?.expiresAt ?? '');
  assert.ok(at >= before + 60_000 && at <= world.deps.now() + 60_000, build?.expiresAt);
  assert.deepEqual(
    rest.map(({ expiresAt }) => expiresAt),
    [undefined, undefined],
  );
  // Asked again it is the same push, with the time it was given.
  const again = await world.client.call(operations.push, call);
  assert.equal(again[0]?.expiresAt, build?.expiresAt);
  const [patient] = await world.client.call(operations.push, { params, body: body('patient') });
  assert.equal(patient?.expiresAt, undefined);
  for (const { id } of [patient, ...rest.toReversed(), build].flatMap((one) => one ?? [])) {
    await world.client.call(operations.cancel, { params: { operation: id } });
  }
});

test('a push is claimed step by step, and a second push of the app waits', async () => {
  const app = await newApp('chain');
  const [build, release, deploy] = await push(app, 'p1');
  await push(app, 'p2');
  assert.deepEqual([build?.kind, release?.kind, deploy?.kind], ['build', 'release', 'deploy']);
  assert.deepEqual(release?.dependsOn, [build?.id]);
  assert.equal(build?.input.commit, 'c0ffee');
  const order: string[] = [];
  for (let index = 0; index < 6; index += 1) {
    const operation = await claim('r1');
    assert.equal(operation.state, 'running');
    assert.equal(operation.runnerId, 'r1');
    order.push(`${operation.pushId} ${operation.kind}`);
    await finish('r1', operation.id, 'complete', { output: { step: String(index) } });
  }
  assert.deepEqual(order, ['p1 build', 'p1 release', 'p1 deploy', 'p2 build', 'p2 release', 'p2 deploy']);
  assert.deepEqual((await get(build?.id ?? '')).output, { step: '0' });
  const list = await world.client.call(operations.list, { params: { app } });
  assert.deepEqual(
    list.map(({ pushId, kind }) => `${pushId} ${kind}`),
    order.toReversed(),
  );
});

test('the same push again is the same chain, also when asked for twice at once', async () => {
  const app = await newApp('twice');
  const [one, two] = await Promise.all([push(app, 'p'), push(app, 'p')]);
  assert.deepEqual(
    one.map(({ id }) => id),
    two.map(({ id }) => id),
  );
  assert.equal((await world.client.call(operations.list, { params: { app } })).length, 3);
  const build = await claim('r1');
  assert.equal((await push(app, 'p'))[0]?.state, 'running');
  await finish('r1', build.id, 'failed', { error: 'x' });
});

test('an id that an operation of another app has is refused, and nothing of that operation is told', async () => {
  const [theirs, ours] = [await newApp('theirs'), await newApp('ours')];
  const asked = { id: 'mine', kind: 'build' as const, input: { sourceDigest: 'sha256:secret' } };
  const create = (app: string, ...all: (typeof asked)[]) =>
    world.client.call(operations.create, { params: { app }, body: { operations: all } });
  const [first] = await create(theirs, asked);
  const refused = (error: unknown) => hasCode(error, 'conflict') && error.message.endsWith('use another id');
  await assert.rejects(create(ours, asked), refused);
  await assert.rejects(create(ours, asked, { ...asked, id: 'free' }), refused);
  await world.client.call(operations.cancel, { params: { operation: 'mine' } });
  await assert.rejects(create(ours, asked), refused, 'one that has ended neither');
  const [again] = await create(theirs, asked);
  assert.deepEqual([again?.id, again?.createdAt], [first?.id, first?.createdAt]);
  assert.deepEqual(await world.client.call(operations.list, { params: { app: ours } }), []);
});

test('many runners claim each operation once, and one operation of an app at a time', async () => {
  const names = await Promise.all(['m1', 'm2', 'm3', 'm4'].map(newApp));
  const claims = Array.from({ length: 4 }, (_, index) => claim(`runner${index}`));
  await Promise.all(names.flatMap((app) => [push(app, 'a'), push(app, 'b')]));
  const taken = await Promise.all(claims);
  assert.equal(new Set(taken.map(({ appId }) => appId)).size, 4);
  await Promise.all(taken.map(({ id, runnerId }) => finish(runnerId ?? '', id, 'cancelled')));
  for (const _ of names) {
    const next = await claim('r1');
    assert.equal(next.kind, 'build');
    await finish('r1', next.id, 'failed', { error: 'x' });
  }
});

test('when a build fails, what depends on it is cancelled and says why', async () => {
  const app = await newApp('failing');
  const [build, release, deploy] = await push(app, 'p');
  await claim('r1');
  const ended = await finish('r1', build?.id ?? '', 'failed', { error: 'npm install failed' });
  assert.equal(ended.state, 'failed');
  assert.equal(ended.error, 'npm install failed');
  for (const id of [release?.id, deploy?.id]) {
    const dependent = await get(id ?? '');
    assert.equal(dependent.state, 'cancelled');
    assert.match(dependent.error ?? '', /the build before it failed/);
  }
  assert.deepEqual((await readLog(deploy?.id ?? '')).lines, []);
  assert.equal(
    (await finish('r1', build?.id ?? '', 'failed', { error: 'npm install failed' })).state,
    'failed',
    'a repeated answer is fine',
  );
  await assert.rejects(
    finish('r1', build?.id ?? '', 'complete'),
    (error) => hasCode(error, 'conflict') && /is failed: npm/.test(error.message),
  );
});

test('a log is followed from before the first line to the end, and resumed in the middle', async () => {
  const app = await newApp('logged');
  const [build] = await push(app, 'p');
  const id = build?.id ?? '';
  const reading = readLog(id);
  await claim('r1');
  await append('r1', id, 0, ['one', 'two']);
  await append('r1', id, 1, ['two', 'three']);
  await assert.rejects(
    append('r1', id, 9, ['x']),
    (error) => hasCode(error, 'conflict') && error.detail['lines'] === 3,
  );
  await assert.rejects(
    append('r2', id, 3, ['x']),
    (error) => hasCode(error, 'conflict') && /run by r1, not by r2/.test(error.message),
  );
  await finish('r1', id, 'failed', { error: 'no' });
  const { lines, end } = await reading;
  assert.deepEqual(lines, ['one', 'two', 'three']);
  assert.equal(end.state, 'failed');
  assert.deepEqual((await readLog(id, '1')).lines, ['three']);
  await assert.rejects(append('r1', id, 3, ['late']), (error) => hasCode(error, 'conflict'));
});

test('cancelling what waits ends it; what runs is told through its heartbeat', async () => {
  const app = await newApp('cancelled');
  const [build, release] = await push(app, 'p');
  await claim('r1');
  const beat = async () => (await runner('r1')).beat(build?.id ?? '');
  assert.deepEqual(await beat(), { cancelled: false });
  assert.equal(
    (await world.client.call(operations.cancel, { params: { operation: build?.id ?? '' } })).state,
    'running',
  );
  assert.deepEqual(await beat(), { cancelled: true });
  await finish('r1', build?.id ?? '', 'cancelled', { error: 'stopped' });
  assert.equal((await get(release?.id ?? '')).state, 'cancelled');
  const [waiting] = await push(app, 'q');
  assert.equal(
    (await world.client.call(operations.cancel, { params: { operation: waiting?.id ?? '' } })).state,
    'cancelled',
  );
  assert.equal(
    (await world.client.call(operations.cancel, { params: { operation: waiting?.id ?? '' } })).state,
    'cancelled',
  );
});

test('an operation whose claim never reached its runner is there for the next', async () => {
  const app = await newApp('left');
  const leaving = new AbortController();
  const left = (await runner('gone')).claim({ signal: leaving.signal });
  const refused = assert.rejects(left);
  leaving.abort();
  await refused;
  const [build] = await push(app, 'p');
  const taken = await claim('r1');
  assert.equal(taken.id, build?.id);
  await finish('r1', taken.id, 'failed', { error: 'x' });
});

test('a runner that goes silent loses its operation: it fails, its build job is stopped, the app can be pushed again', async () => {
  await using quiet = await startTestController({ hasWorker: false });
  const { client, deps } = quiet;
  let nowMs = Date.now();
  const watch = new OperationWatch({ ...deps, steadyNow: () => nowMs });
  const { signal } = new AbortController();
  const runners = ['r1', 'r2'].map((id) => new TestRunner({ client, id, clusterKey: quiet.key }));
  await Promise.all(runners.map((one) => one.register()));
  const [r1, r2] = runners;
  const app = await client.call(apps.create, { body: { name: 'silent' } });
  const pushed = await client.call(operations.push, { params: { app: 'silent' }, body: body('p') });
  const id = pushed[0]?.id ?? '';
  await r1?.claim();
  const workload = {
    id: buildWorkloadId(app.id, id),
    kind: 'ephemeral' as const,
    count: 1,
    version: 'x',
    template: { image: { name: 'x' }, resources: { memoryBytes: 1, cpuMillis: 0 } },
  };
  const { revision } = await quiet.store.transact({ then: workloadChange(workload, { now: nowMs, newId }) });
  await deps.cell.workloads.reached(revision);
  const look = async (): Promise<Operation> => {
    await deps.operations.reached((await quiet.store.list('/flynn/resource/operation/')).revision);
    await watch.sweep({ signal });
    return client.call(operations.get, { params: { operation: id } });
  };

  assert.equal((await look()).state, 'running');
  nowMs += silenceMs - 1;
  await deps.resources.updateStatus(operationType, id, ({ status }) => ({ ...status, heartbeatAt: 12_345 }));
  assert.equal((await look()).state, 'running');
  nowMs += silenceMs - 1;
  assert.equal((await look()).state, 'running', 'a heartbeat gives it the whole time again');
  nowMs += 1;
  const build = await look();
  assert.equal(build.state, 'failed');
  assert.match(build.error ?? '', /^heartbeat timeout: r1 was not heard of for 30 s/);
  const release = await client.call(operations.get, { params: { operation: pushed[1]?.id ?? '' } });
  assert.deepEqual([release.state, release.error], ['cancelled', 'the build before it failed']);
  await stopLeftBuilds(deps, id, { signal });
  assert.equal(await quiet.store.get(cellKeys.workload(workload.id)), undefined, 'the build is stopped');
  await client.call(operations.push, { params: { app: 'silent' }, body: body('q') });
  assert.equal((await r2?.claim())?.pushId, 'q');
});

test('deleting an app ends what runs of it', async () => {
  const app = await newApp('removed');
  const [build] = await push(app, 'p');
  await claim('r1');
  await world.client.call(apps.remove, { params: { app } });
  const beat = (await runner('r1')).beat(build?.id ?? '');
  await assert.rejects(beat, (error) => hasCode(error, 'not_found'));
  assert.equal((await world.client.call(jobs.list, { params: { app: 'chain' } })).length, 0);
});
