/** Builds whose host or runner is lost, against a whole controller with simulated hosts. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps, jobs, releases } from '@flynn/controller/api';
import { hosts } from '@flynn/controller/hosts/api';
import { operations } from '@flynn/controller/operations/api';
import type { Operation } from '@flynn/controller/model';
import type { SimulatedHost } from '@flynn/controller/testing/simulated-host';
import { waitFor } from '@flynn/kit/retry';
import { behave, outcome, push, startRunner, startWorld } from './runner-fixture.ts';
import type { World } from './runner-fixture.ts';

const deadlineMs = 60_000;

/** The host on which a build runs, once there is one other than those. */
function buildingHost({ controller }: World, ...but: SimulatedHost[]): Promise<SimulatedHost> {
  const isBuilding = (host: SimulatedHost): boolean =>
    !but.includes(host) &&
    host.statuses().some(({ meta, state }) => meta['flynn.type'] === 'build' && state === 'running');
  return waitFor(() => controller.hosts.find(isBuilding), { what: 'the build to run', deadlineMs });
}

function jobOn(host: SimulatedHost): string {
  return host.statuses().find(({ meta }) => meta['flynn.type'] === 'build')?.id ?? '';
}

/** Until the runner has heard of it what it says is not in the log. */
async function whenLogged({ controller }: World, operation: Operation | undefined, line: string): Promise<void> {
  const input = { params: { operation: operation?.id ?? '' } };
  for await (const { data } of controller.client.events(operations.log, input, { signal: AbortSignal.timeout(60_000) }))
    if (JSON.stringify(data).includes(line)) return;
}

test('a build whose host is lost is begun again on another, which the pusher is told; of the push there is one release', async () => {
  await using world = await startWorld();
  const { controller } = world;
  behave(world, { build: { is: 'run', lines: ['fetching'] } });
  const [build, , deploy] = await push(world, {});
  await using _runner = startRunner(world);
  const first = await buildingHost(world);
  await whenLogged(world, build, 'fetching');
  await first[Symbol.asyncDispose]();
  const second = await buildingHost(world, first);
  await second.end(jobOn(second), 0);
  const { operation, lines } = await outcome(world, build?.id);
  assert.deepEqual([operation.state, operation.error, operation.attempt], ['complete', undefined, 2], lines.join('\n'));
  assert.deepEqual(lines, [
    '-----> Building shop...',
    'fetching',
    '',
    ` !     The host ${first.id} that built it was lost: beginning again on another (2nd try of 3 at most)`,
    '-----> Building shop...',
    'fetching',
  ]);
  assert.deepEqual(
    operation.losses?.map(({ hostId, hasRun }) => [hostId, hasRun]),
    [[first.id, true]],
  );
  assert.equal((await outcome(world, deploy?.id)).operation.state, 'complete');
  assert.equal((await controller.client.call(releases.list, { params: { app: 'shop' } })).length, 1);
});

test('a build that two hosts were lost beneath gets no third one, and says why', async () => {
  await using world = await startWorld({ hosts: 3 });
  behave(world, { build: { is: 'run' } });
  const [build, , deploy] = await push(world, {});
  await using _runner = startRunner(world);
  const first = await buildingHost(world);
  await first[Symbol.asyncDispose]();
  const second = await buildingHost(world, first);
  await second[Symbol.asyncDispose]();
  const { operation } = await outcome(world, build?.id);
  assert.equal(operation.state, 'failed');
  const pattern = new RegExp(`the hosts ${first.id} and ${second.id} were lost while it was built there.*push again`);
  assert.match(operation.error ?? '', pattern);
  assert.equal((await outcome(world, deploy?.id)).operation.state, 'cancelled');
  const last = world.controller.hosts.find((host) => host !== first && host !== second);
  assert.equal(jobOn(last ?? first), '');
});

test('a build that the deadline of a drain ended is begun again on another host, and no host is lost by it', async () => {
  await using world = await startWorld();
  const { client } = world.controller;
  behave(world, { build: { is: 'run', lines: ['fetching'], lingers: true } });
  const [build] = await push(world, {});
  await using _runner = startRunner(world);
  const first = await buildingHost(world);
  await whenLogged(world, build, 'fetching');
  await client.call(hosts.drain, { params: { host: first.id }, body: { deadlineMs: 0 } });
  await first.end(jobOn(first), 143);
  const second = await buildingHost(world, first);
  await second.end(jobOn(second), 0);
  const { operation, lines } = await outcome(world, build?.id);
  assert.deepEqual([operation.state, operation.attempt], ['complete', 2], lines.join('\n'));
  assert.deepEqual(
    operation.losses?.map(({ hostId, hasRun, isDrained }) => [hostId, hasRun, isDrained]),
    [[first.id, false, true]],
  );
  assert.match(lines.join('\n'), new RegExp(` !     The host ${first.id} was drained.*: beginning again on another`));
});

test('a build that fails by itself is not begun again, nor one that somebody stopped', async () => {
  await using world = await startWorld();
  const { client } = world.controller;
  behave(world, { build: { is: 'fail', error: 'killed: out of memory' } });
  await using _runner = startRunner(world);
  const [failing] = await push(world);
  const failed = await outcome(world, failing?.id);
  assert.deepEqual([failed.operation.state, failed.operation.attempt], ['failed', 1]);
  behave(world, { build: { is: 'run' } });
  const [stopped] = await push(world);
  const host = await buildingHost(world);
  const isRunning = ({ type, state }: { type: string; state: string }) => type === 'build' && state === 'running';
  const [job] = await world.controller.jobsOf('shop', 1, isRunning);
  assert.equal(job?.hostId, host.id);
  await client.call(jobs.stop, { params: { app: 'shop', job: job?.id ?? '' } });
  const { operation } = await outcome(world, stopped?.id);
  assert.deepEqual([operation.state, operation.attempt, operation.losses], ['failed', 1, undefined]);
});

test('a build whose host is lost after it was cancelled is cancelled', async () => {
  await using world = await startWorld();
  const { controller } = world;
  behave(world, { build: { is: 'run', lingers: true } });
  const [build] = await push(world);
  await using _runner = startRunner(world);
  const host = await buildingHost(world);
  await controller.client.call(operations.cancel, { params: { operation: build?.id ?? '' } });
  await host[Symbol.asyncDispose]();
  const { operation } = await outcome(world, build?.id);
  assert.deepEqual([operation.state, operation.attempt], ['cancelled', 1]);
});

test('a build that its runner was silent about is begun again, also by that runner, and what that did before is none of it', async () => {
  await using world = await startWorld();
  const { controller } = world;
  behave(world, { build: { is: 'run', lines: ['fetching'] } });
  const [build] = await push(world, {});
  await using _runner = startRunner(world);
  const first = await buildingHost(world);
  await whenLogged(world, build, 'fetching');
  const before = jobOn(first);
  const loss = { at: new Date().toISOString(), runnerId: 'runner', hasRun: false };
  await controller.deps.writer.apply(build?.id ?? '', { type: 'silence', reason: 'heartbeat timeout', loss });
  const isNext = ({ type, state, id }: { type: string; state: string; id: string }) =>
    type === 'build' && state === 'running' && id !== before;
  const [job] = await controller.jobsOf('shop', 1, isNext);
  const host = controller.hosts.find(({ id }) => id === job?.hostId);
  await host?.end(job?.id ?? '', 0);
  const { operation, lines } = await outcome(world, build?.id);
  assert.deepEqual([operation.state, operation.attempt], ['complete', 2], lines.join('\n'));
  assert.ok(
    lines.some((line) => line.includes('The runner runner that saw to it was lost: beginning again')),
    lines.join('\n'),
  );
  const { id: appId } = await controller.client.call(apps.get, { params: { app: 'shop' } });
  const isStopped = () => !controller.deps.cell.workloads.snapshot.entries.has(`${appId}-build-${build?.id}`);
  await waitFor(isStopped, { what: 'the first build to be stopped', deadlineMs });
});
