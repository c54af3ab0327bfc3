/** What becomes of operations whose runner is stopped, against a whole controller with simulated hosts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { deployments, releases } from '@flynn/controller/api';
import { operations } from '@flynn/controller/operations/api';
import type { Operation } from '@flynn/controller/model';
import { waitFor } from '@flynn/kit/retry';
import { behave, outcome, push, startRunner, startWorld } from './runner-fixture.ts';
import type { World } from './runner-fixture.ts';

const deadlineMs = 60_000;
const params = { app: 'shop' };
const second = { env: { FLYNN_RUNNER_ID: 'second' } };

function get({ controller }: World, one: Operation | undefined): Promise<Operation> {
  return controller.client.call(operations.get, { params: { operation: one?.id ?? '' } });
}

/** Until the runner has heard of it what it says is not in the log. */
async function whenLogged({ controller }: World, one: Operation | undefined, line: string): Promise<void> {
  const input = { params: { operation: one?.id ?? '' } };
  const signal = AbortSignal.timeout(deadlineMs);
  for await (const { data } of controller.client.events(operations.log, input, { signal }))
    if (JSON.stringify(data).includes(line)) return;
}

/** Jobs of builds that were ever begun. */
function builds({ controller }: World): { id: string; end(code: number): Promise<void> }[] {
  return controller.hosts.flatMap((host) =>
    host
      .statuses()
      .filter(({ meta }) => meta['flynn.type'] === 'build')
      .map(({ id }) => ({ id, end: (code: number) => host.end(id, code) })),
  );
}

test('a build whose runner is stopped goes on: another tells the rest of the same job, and of the push there is one release', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'run', lines: ['fetching', 'compiling'] } });
  const [build, , deploy] = await push(world, {});
  const first = startRunner(world, { graceMs: 100 });
  await whenLogged(world, build, 'compiling');
  await first.stop();
  const given = await get(world, build);
  assert.deepEqual([given.state, given.runnerId, given.losses], ['queued', undefined, undefined]);
  await using _second = startRunner(world, second);
  await whenLogged(world, build, 'goes on with');
  const [job, ...others] = builds(world);
  assert.deepEqual(others, [], 'it is not begun again');
  await job?.end(0);
  const { operation, lines } = await outcome(world, build?.id);
  assert.deepEqual([operation.state, operation.attempt, operation.handovers], ['complete', 2, 1], lines.join('\n'));
  assert.deepEqual(lines, [
    '-----> Building shop...',
    'fetching',
    'compiling',
    '',
    ' !     The runner runner was stopped: second goes on with the build',
  ]);
  assert.equal((await outcome(world, deploy?.id)).operation.state, 'complete');
  assert.equal((await world.controller.client.call(releases.list, { params })).length, 1);
});

test('a build that ended while no runner had it is what it came to', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'run', lines: ['fetching'] } });
  const [build] = await push(world, {});
  const first = startRunner(world, { graceMs: 100 });
  await whenLogged(world, build, 'fetching');
  await first.stop();
  await builds(world)[0]?.end(3);
  await using _second = startRunner(world, second);
  const { operation } = await outcome(world, build?.id);
  assert.deepEqual([operation.state, operation.attempt, operation.losses], ['failed', 2, undefined]);
  assert.match(operation.error ?? '', /exit code 3/);
});

test('a build that is cancelled while no runner has it is stopped', async () => {
  await using world = await startWorld();
  const { controller } = world;
  behave(world, { build: { is: 'run', lines: ['fetching'] } });
  const [build] = await push(world, {});
  const first = startRunner(world, { graceMs: 100 });
  await whenLogged(world, build, 'fetching');
  await first.stop();
  await controller.client.call(operations.cancel, { params: { operation: build?.id ?? '' } });
  assert.equal((await outcome(world, build?.id)).operation.state, 'cancelled');
  const isStopped = async () => (await controller.jobsOf('shop', 0, () => true)).length === 0;
  await waitFor(isStopped, { what: 'the build to be stopped', deadlineMs });
});

test('a rollout whose runner is stopped is followed by another, and not begun again', async () => {
  await using world = await startWorld();
  const { client } = world.controller;
  behave(world, { build: { is: 'exit', code: 0 }, web: { is: 'hang' } });
  const [, , deploy] = await push(world, {});
  const first = startRunner(world, { graceMs: 100 });
  const hasBegun = async () => (await client.call(deployments.list, { params })).length > 0;
  await waitFor(hasBegun, { what: 'the rollout to begin', deadlineMs });
  await first.stop();
  assert.equal((await get(world, deploy)).state, 'queued');
  await using _second = startRunner(world, second);
  await whenLogged(world, deploy, 'second goes on with the deploy');
  await client.call(operations.cancel, { params: { operation: deploy?.id ?? '' } });
  const { operation } = await outcome(world, deploy?.id);
  assert.deepEqual([operation.state, operation.error], ['cancelled', 'it was cancelled: its rollout is taken back']);
  assert.equal((await client.call(deployments.list, { params })).length, 1);
  assert.equal((await client.call(releases.list, { params })).length, 1);
});

test('what names its runner fails with that, and says what to do', async () => {
  await using world = await startWorld();
  const { controller, blobs } = world;
  behave(world, { build: { is: 'run' } });
  const { digest } = await blobs.put('a source');
  const body = {
    operations: [{ kind: 'build' as const, input: { sourceDigest: digest }, target: { runnerId: 'runner' } }],
  };
  const [build] = await controller.client.call(operations.create, { params, body });
  const runner = startRunner(world, { graceMs: 100 });
  await waitFor(async () => (await get(world, build)).state === 'running', { what: 'it to run', deadlineMs });
  await runner.stop();
  const { operation } = await outcome(world, build?.id);
  assert.deepEqual([operation.state, operation.error], ['failed', 'the runner was stopped: push again']);
});
