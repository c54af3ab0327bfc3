import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { deployments, releases } from '@flynn/controller/api';
import { openDeskWithController } from '../testing.ts';

test('the settings of deployments are told and set one by one', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const run = (...argv: string[]) => env.desk.run(['-a', 'hello', 'deployment', ...argv]);
  assert.match((await run('strategy')).stdout, /^Strategy: +in-batches\nBatch size: +auto/);
  assert.match(
    (await run('strategy', 'canary', '--canaries', '2', '--min-healthy', '3s')).stdout,
    /Canaries: +2\nMin healthy: +3s\nPromotion: +by hand\n/,
  );
  assert.match(
    (await run('strategy', '--auto-promote', '10m')).stdout,
    /Canaries: +2\n.*Promotion: +after 10m of health/s,
  );
  assert.match((await run('strategy', '--canaries', '1')).stdout, /Promotion: +after 10m of health/);
  assert.match((await run('strategy', '--auto-promote', 'none')).stdout, /Promotion: +by hand/);
  assert.match((await run('batch-size', '3')).stdout, /Strategy: +canary\nBatch size: +3\n/);
  assert.match((await run('batch-size', 'auto')).stdout, /Batch size: +auto/);
  assert.match((await run('timeout', '5m', '--whole', '1h')).stdout, /Timeout: +300s without progress, 3600s for all/);
  assert.match((await run('timeout', '--whole', 'none')).stdout, /Timeout: +300s without progress$/m);
  const wrong = await run('strategy', 'canari');
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /"canari" is no strategy: choose from in-batches, .*did you mean canary\?/);
  assert.equal((await run('batch-size', '0')).code, 2);
});

test('a canary that is promoted by itself says when, wherever it is told of', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const run = (...argv: string[]) => env.desk.run(['-a', 'hello', ...argv]);
  await run('deployment', 'strategy', 'canary', '--auto-promote', '1h');
  const set = await run('env', 'set', 'A=1');
  const when =
    /canaries .*are up: the rest follows once they were healthy for 1h; "flynn deployment promote" or "abort"/;
  assert.match(set.stdout, when, set.stderr);
  assert.match((await run('deployment', 'info')).stdout, when);
});

test('a canary is rolled out by hand: env set leaves it waiting, promote goes on, abort goes back', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  const run = (...argv: string[]) => env.desk.run(['-a', 'hello', ...argv]);
  await run('deployment', 'strategy', 'canary');
  const set = await run('env', 'set', 'A=1');
  assert.equal(set.code, 0, set.stderr);
  assert.match(set.stdout, /the canaries of v2 are up: "flynn deployment promote" or "abort"/);
  assert.match(
    (await run('deployment', 'info')).stdout,
    /State: +canary\nReleases: +v1 => v2\n.*web: 1 of 1 up, 1 old/s,
  );
  assert.match((await run('deployment', 'pause')).stdout, / paused$/m);
  assert.match((await run('deployment', 'promote')).stderr, /cannot promote this deployment, it is paused/);
  assert.match((await run('deployment', 'resume')).stdout, / goes on$/m);
  await env.controller.jobsOf('hello', 2);
  const aborted = await run('deployment', 'abort', '-m', 'too slow');
  assert.equal(aborted.code, 0, aborted.stderr);
  await env.controller.jobsOf('hello', 1, () => true);
  assert.match((await run('deployment', 'list')).stdout, /failed +v1 +v2 +canary .*it was aborted: too slow/);
  const none = await run('deployment', 'info', 'nothing');
  assert.match(none.stderr, /hello has no deployment nothing/);
  // By the name that others have for it.
  assert.match((await run('deployment', '--help')).stdout, /abort\|fail .*failed: back to the old release/);
  assert.match((await run('help', 'deployment', 'fail')).stdout, /-m, --reason/);
  assert.match((await run('deployment', 'fail')).stderr, /cannot abort this deployment, it is failed/);
});

test('a rollback waits for the old jobs of the deployment before, and `env set` does not', async () => {
  await using env = await openDeskWithController({ behave: () => ({ is: 'run', lingers: true }) });
  const { release } = await env.controller.deployApp('hello', { web: {} });
  env.controller.setBehaviour(() => ({ is: 'run' }));
  const set = await env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  assert.match(set.stdout, /release v2 deployed/);
  const [old] = await env.controller.jobsOf('hello', 1, ({ releaseId }) => releaseId === release.id);
  const rollingBack = env.desk.run(['-a', 'hello', 'rollback']);
  const host = env.controller.hosts.find(({ id }) => id === old?.hostId);
  await host?.end(old?.id ?? '', 0);
  const { code, stdout, stderr } = await rollingBack;
  assert.equal(code, 0, stderr);
  assert.match(stdout, /release v1 deployed/);
});

test('while a release does not come up who goes back is told of it at once, and who changes the app waits', async () => {
  await using env = await openDeskWithController();
  await env.controller.deployApp('hello', { web: {} });
  env.controller.setBehaviour(() => ({ is: 'hang' }));
  const next = await env.controller.makeRelease('hello', { web: {} });
  const { client } = env.controller;
  const { id } = await client.call(deployments.create, { params: { app: 'hello' }, body: { releaseId: next.id } });
  const back = await env.desk.run(['-a', 'hello', 'rollback', 'v2']);
  assert.equal(back.code, 1);
  assert.match(back.stderr, /a deployment of hello is under way: wait for it to end, see flynn deployment/);
  const setting = env.desk.run(['-a', 'hello', 'env', 'set', 'A=1']);
  await waitFor(async () => (await client.call(releases.list, { params: { app: 'hello' } })).length === 3, {
    what: 'the release that waits',
    deadlineMs: 30_000,
  });
  env.controller.setBehaviour(() => ({ is: 'run' }));
  assert.equal((await env.desk.run(['-a', 'hello', 'deployment', 'abort', id])).code, 0);
  const { code, stdout, stderr } = await setting;
  assert.equal(code, 0, stderr);
  assert.match(stdout, /release v3 deployed/);
});

test('a deployment is followed job by job, and its end is the exit code', async () => {
  await using env = await openDeskWithController({ behave: () => ({ is: 'run', lingers: true }) });
  await env.controller.deployApp('hello', { web: {} });
  env.controller.setBehaviour(() => ({ is: 'run' }));
  const next = await env.controller.makeRelease('hello', { web: {} });
  const { client } = env.controller;
  await client.call(deployments.create, { params: { app: 'hello' }, body: { releaseId: next.id } });
  const following = env.desk.run(['-a', 'hello', 'deployment', 'follow']);
  const [old] = await env.controller.jobsOf('hello', 1, ({ state }) => state === 'stopping');
  const host = env.controller.hosts.find(({ id }) => id === old?.hostId);
  await host?.end(old?.id ?? '', 0);
  const { code, stdout, stderr } = await following;
  assert.equal(code, 0, stderr);
  assert.match(stdout, /State: +complete/);
  env.controller.setBehaviour(() => ({ is: 'crash', code: 3 }));
  const bad = await env.controller.makeRelease('hello', { web: {} });
  await env.controller.deploy('hello', bad.id);
  const failed = await env.desk.run(['-a', 'hello', 'deployment', 'follow']);
  assert.equal(failed.code, 1);
  assert.match(failed.stdout, /Why: +a web job of the new release did not stay up: .*exit code 3/);
});
