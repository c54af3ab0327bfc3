import assert from 'node:assert/strict';
import { test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { operations } from '@flynn/controller/operations/api';
import type { Operation, Runner } from '@flynn/controller/model';
import { TestRunner } from '@flynn/controller/operations/test-runner';
import type { TestRunnerOptions } from '@flynn/controller/operations/test-runner';
import { openDeskWithController } from '../testing.ts';

type Env = Awaited<ReturnType<typeof openDeskWithController>>;

async function join({ controller }: Env, id: string, options: Partial<TestRunnerOptions> = {}): Promise<TestRunner> {
  const runner = new TestRunner({ client: controller.client, id, clusterKey: controller.key, ...options });
  await runner.register();
  return runner;
}

function queue({ controller }: Env, app: string, ...ids: string[]): Promise<Operation[]> {
  const body = { operations: ids.map((id) => ({ id, kind: 'build' as const, input: {} })) };
  return controller.client.call(operations.create, { params: { app }, body });
}

test('`op list` shows what is under way and what it waits for, of one app or of all, in columns and in JSON', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  for (const name of ['shop', 'blog']) await controller.client.call(apps.create, { body: { name } });
  await queue(env, 'shop', 'first', 'second');
  await queue(env, 'blog', 'other');
  assert.match((await desk.run(['op', 'list', '-a', 'shop'])).stdout, /first .*waits for a runner: none is there/);
  const runner = await join(env, 'r1');
  await runner.claim();
  const list = await desk.run(['op', 'list', '-a', 'shop']);
  const rows = list.stdout.trimEnd().split('\n');
  assert.match(rows[0] ?? '', /^ID +STATE +KIND +APP +RUNNER +AGE +TOOK +NOTE$/);
  assert.match(
    rows[1] ?? '',
    /^second +queued +build +shop +- +\d+s +- +waits for first: operations of an app go one at a time$/,
  );
  assert.match(rows[2] ?? '', /^first +running +build +shop +r1 +\d+s +\d+\.\ds +-$/);
  await runner.finish('first', 'failed', { error: 'npm install failed' });
  const all = await desk.run(['op', 'list', '--all', '--json']);
  const parsed = JSON.parse(all.stdout) as Operation[];
  assert.deepEqual(
    parsed.map(({ id, state }) => `${id} ${state}`),
    ['other queued', 'second queued', 'first failed'],
  );
  assert.match((await desk.run(['op', 'list', '--all'])).stdout, /first +failed .*npm install failed/);
  assert.doesNotMatch((await desk.run(['op', 'list', '--all', '--live'])).stdout, /first/);
  const wrong = await desk.run(['op', 'list', '--all', '-n', 'many']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /"many" is not a number of operations/);
});

test('`op info` tells one in full; one there is not is told with what to do', async () => {
  await using env = await openDeskWithController();
  await env.controller.client.call(apps.create, { body: { name: 'shop' } });
  await queue(env, 'shop', 'first');
  const runner = await join(env, 'r1');
  await runner.claim();
  await runner.finish('first', 'complete', { output: { resultDigest: 'sha256:x' } });
  const info = await env.desk.run(['op', 'info', 'first']);
  assert.match(info.stdout, /^id +first\nstate +complete\nkind +build\napp +shop\nrunner +r1\nattempt +1\n/);
  assert.match(
    info.stdout,
    /\nqueued +2.*\ngiven away +2.*\nstarted +2.*\nended +2.*\ntook +\d+\.\ds\noutput resultDigest +sha256:x\n$/,
  );
  const missing = await env.desk.run(['op', 'info', 'nowhere']);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /there is no operation nowhere: list them with: flynn op list --all/);
});

test('`op info` tells who gave one back', async () => {
  await using env = await openDeskWithController();
  await env.controller.client.call(apps.create, { body: { name: 'shop' } });
  await queue(env, 'shop', 'first');
  const runner = await join(env, 'r1');
  for (const times of ['once', '2 times, at last']) {
    const { attempt = 0 } = await runner.claim();
    await runner.report({ declined: [{ id: 'first', attempt, handover: {} }] });
    const { stdout } = await env.desk.run(['op', 'info', 'first']);
    assert.match(stdout, new RegExp(`\\ngiven back +${times} by r1, which was stopped: 2`));
  }
});

test('`op log` tells what there is, with -f to the end, whose exit code says how it ended', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.client.call(apps.create, { body: { name: 'shop' } });
  await queue(env, 'shop', 'first');
  const runner = await join(env, 'r1');
  await runner.claim();
  await runner.append('first', 0, ['one', 'two']);
  const soFar = await desk.run(['op', 'log', 'first']);
  assert.deepEqual([soFar.code, soFar.stdout], [0, 'one\ntwo\n']);
  const following = desk.run(['op', 'log', '-f', 'first']);
  await runner.append('first', 2, ['\u001b[1mthree']);
  await runner.finish('first', 'failed', { error: 'no' });
  const followed = await following;
  assert.deepEqual([followed.code, followed.stdout], [1, 'one\ntwo\n\u001b[1mthree\n'], 'as the build wrote it');
  assert.equal(followed.stderr, 'flynn: operation first failed: no\n');
  assert.equal((await desk.run(['op', 'log', 'first', '--json'])).stdout.split('\n')[0], '{"text":"one"}');
});

test('`op cancel` ends what waits, tells what runs, and ends that too with --force', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.client.call(apps.create, { body: { name: 'shop' } });
  await queue(env, 'shop', 'first', 'second');
  const runner = await join(env, 'r1');
  await runner.claim();
  assert.equal((await desk.run(['op', 'cancel', 'second'])).stdout, 'second was cancelled\n');
  assert.match(
    (await desk.run(['op', 'cancel', 'first'])).stdout,
    /^first was told to stop; .*--force ends it at once\n$/,
  );
  assert.match((await desk.run(['op', 'list', '-a', 'shop'])).stdout, /first +stopping/);
  assert.deepEqual(await runner.beat('first'), { cancelled: true });
  assert.equal((await desk.run(['op', 'cancel', '--force', 'first'])).stdout, 'first was cancelled\n');
  assert.match((await desk.run(['op', 'cancel', 'first'])).stdout, /^first had ended before: it is cancelled\n$/);
});

test('`op expire` moves the time by which it has to run, and says why it cannot', async () => {
  await using env = await openDeskWithController();
  const { desk, controller } = env;
  await controller.client.call(apps.create, { body: { name: 'shop' } });
  await queue(env, 'shop', 'first', 'second');
  const moved = await desk.run(['op', 'expire', 'second', '1h']);
  assert.match(moved.stdout, /^second fails unless it runs by 2.*Z\n$/);
  assert.match((await desk.run(['op', 'info', 'second'])).stdout, /\nexpires +2/);
  assert.equal((await desk.run(['op', 'expire', 'second', 'never'])).stdout, 'second waits as long as it takes\n');
  assert.doesNotMatch((await desk.run(['op', 'info', 'second'])).stdout, /\nexpires/);
  for (const [time, why] of [
    ['soon', /"soon" is no length of time: write it as 90s/],
    ['0s', /"0s" is over at once: write how long it may wait/],
    ['900d', /"900d" is more than a year/],
  ] as const) {
    const wrong = await desk.run(['op', 'expire', 'second', time]);
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, why);
  }
  const runner = await join(env, 'r1');
  await runner.claim();
  const runs = await desk.run(['op', 'expire', 'first', '1m']);
  assert.equal(runs.code, 1);
  assert.match(runs.stderr, /first runs, and what runs does not expire; "flynn op cancel first" stops it/);
  await runner.finish('first', 'complete');
  const ended = await desk.run(['op', 'expire', 'first', '1m']);
  assert.equal(ended.code, 1);
  assert.match(ended.stderr, /first has ended, it is complete: only what does not run yet expires/);
  assert.match((await desk.run(['op', 'expire', 'nowhere', '1m'])).stderr, /there is no operation nowhere/);
});

test('runners are listed, adopted, rejected and forgotten', async () => {
  await using env = await openDeskWithController();
  const { desk } = env;
  await join(env, 'platform');
  await join(env, 'own', { token: 'a token of its own', labels: { gpu: 'yes' } });
  const rows = (await desk.run(['runner', 'list'])).stdout.trimEnd().split('\n');
  assert.match(rows[0] ?? '', /^ID +STATE +RUNS +SLOTS +LABELS +VERSION +SEEN$/);
  assert.match(rows[1] ?? '', /^own +pending +0 +64 +gpu=yes +0\.0\.0-test +\d+s$/);
  assert.match(rows[2] ?? '', /^platform +adopted +0 +64 +- +/);
  assert.equal((await desk.run(['runner', 'adopt', 'own'])).stdout, 'own gets work from now on\n');
  assert.match((await desk.run(['runner', 'info', 'own'])).stdout, /^id +own\nstate +adopted\nof the platform +no\n/);
  assert.equal((await desk.run(['runner', 'reject', 'own'])).stdout, 'own gets no more work\n');
  const parsed = JSON.parse((await desk.run(['runner', '--json'])).stdout) as Runner[];
  assert.deepEqual(
    parsed.map(({ id, state }) => `${id} ${state}`),
    ['own rejected', 'platform adopted'],
  );
  assert.equal((await desk.run(['runner', 'forget', 'own'])).stdout, 'own is forgotten\n');
  const missing = await desk.run(['runner', 'adopt', 'own']);
  assert.equal(missing.code, 1);
  assert.match(missing.stderr, /there is no runner "own"; list them with: flynn runner list/);
});
