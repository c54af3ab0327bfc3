import assert from 'node:assert/strict';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { apps } from '@flynn/controller/api';
import { generic } from '@flynn/controller/generic/api';
import { operations } from '@flynn/controller/operations/api';
import { savedFiles, tarOf } from '@flynn/controller/images/testing';
import { type Operation, buildResultSchema } from '@flynn/controller/model';
import { watchAt } from '@flynn/controller/operations/lifecycle-fixture';
import { TestRunner } from '@flynn/controller/operations/test-runner';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { waitFor } from '@flynn/kit/retry';
import { Desk, openDeskWithController } from '../testing.ts';

async function openCluster() {
  const store = await startTestBlobs();
  const env = await openDeskWithController({ blobStoreUrl: store.url });
  const file = join(env.desk.home, 'image.tar');
  await writeFile(file, await tarOf(savedFiles([await tarOf({ a: 'a' }), await tarOf({ b: 'b' })])));
  await env.desk.run(['create', 'shop', '-r', '']);
  return {
    ...env,
    blobs: store.blobs,
    file,
    async [Symbol.asyncDispose]() {
      await env[Symbol.asyncDispose]();
      await store[Symbol.asyncDispose]();
    },
  };
}

const imageOf = (stdout: string): string => /^image (sha256:[0-9a-f]{64})$/m.exec(stdout)?.[1] ?? '';

test('an image in a file is stored, and not sent twice', async () => {
  await using cluster = await openCluster();
  const { desk, blobs, file } = cluster;
  const first = await desk.run(['image', 'push', '--file', file, '--no-deploy', '-p', 'worker=work --hard']);
  assert.equal(first.code, 0, first.stderr);
  assert.match(first.stdout, /^layer 1\/2 .* sent\nlayer 2\/2 .* sent\nimage sha256:/);
  const result = buildResultSchema.parse(
    JSON.parse((await (await blobs.get(imageOf(first.stdout))).toArray()).join('')),
  );
  assert.deepEqual(result.processTypes, { worker: 'work --hard' });
  assert.equal(result.image?.hasCommand, true);
  assert.deepEqual(result.meta, { 'image.name': 'shop:latest' });
  const again = await desk.run(['image', 'push', '--file', file, '--no-deploy', '-p', 'worker=work --hard']);
  assert.match(again.stdout, /1\/2 .* there already\nlayer 2\/2 .* there already\n/);
  assert.equal(imageOf(again.stdout), imageOf(first.stdout));
});

test('what the engine of this machine saves is pushed, and its complaint is told', async () => {
  await using cluster = await openCluster();
  const { desk, file } = cluster;
  const engine = join(desk.home, 'engine');
  await writeFile(engine, `#!/bin/sh\n[ "$3" = shop:1 ] || { echo "no such image: $3" >&2; exit 1; }\ncat ${file}\n`, {
    mode: 0o755,
  });
  const pushed = await desk.run(['image', 'push', 'shop:1', '--engine', engine, '--no-deploy']);
  assert.equal(pushed.code, 0, pushed.stderr);
  const unknown = await desk.run(['image', 'push', 'shop:2', '--engine', engine, '--no-deploy']);
  assert.equal(unknown.code, 1);
  assert.match(unknown.stderr, /did not give shop:2: no such image: shop:2/);
  const missing = await desk.run(['image', 'push', 'shop:2', '--engine', join(desk.home, 'none'), '--no-deploy']);
  assert.match(missing.stderr, /there is no .*none on this machine/);
});

test('a pushed image is rolled out by operations that end as a push of code ends', async () => {
  await using cluster = await openCluster();
  const { desk, controller, file } = cluster;
  const stored = await desk.run(['image', 'push', '--file', file, '--no-deploy']);
  const running = desk.run(['-a', 'shop', 'deploy', '--image', imageOf(stored.stdout)]);
  const runner = new TestRunner({ client: controller.client, id: 'r1', clusterKey: controller.key });
  await runner.register();
  const release = await runner.claim();
  assert.equal(release.kind, 'release');
  assert.equal(release.input.resultDigest, imageOf(stored.stdout));
  await runner.finish(release.id, 'failed', { error: 'no room' });
  const ended = await running;
  assert.equal(ended.code, 1);
  assert.match(ended.stderr, /failed: no room/);
  const all = await controller.client.call(operations.list, { params: { app: 'shop' } });
  const ends = new Set(all.map(({ kind, state }) => `${kind} ${state}`));
  assert.deepEqual(ends, new Set(['release failed', 'deploy cancelled']));
});

test('as JSON what is pushed and how it is rolled out is one value, and the lines are told beside it', async () => {
  await using cluster = await openCluster();
  const { desk, controller, file } = cluster;
  const runner = new TestRunner({ client: controller.client, id: 'r1', clusterKey: controller.key });
  await runner.register();
  const finish = async (state: 'complete' | 'failed'): Promise<void> => {
    const operation = await runner.claim();
    await runner.append(operation.id, 0, ['-----> Told']);
    await runner.finish(operation.id, state, state === 'failed' ? { error: 'no room' } : { output: {} });
  };
  const pushing = desk.run(['image', 'push', '-a', 'shop', '--file', file, '--json']);
  await finish('complete');
  await finish('complete');
  const pushed = await pushing;
  assert.equal(pushed.code, 0, pushed.stderr);
  const value = JSON.parse(pushed.stdout) as { image: string; layers: unknown[]; operations: Operation[] };
  assert.match(value.image, /^sha256:/);
  assert.equal(value.layers.length, 2);
  const ends = (operations: Operation[]) => operations.map(({ kind, state }) => `${kind} ${state}`);
  assert.deepEqual(ends(value.operations), ['release complete', 'deploy complete']);
  assert.match(pushed.stderr, /-----> Told/);
  const deploying = desk.run(['-a', 'shop', 'deploy', '--image', value.image, '--json']);
  await finish('failed');
  const deployed = await deploying;
  assert.equal(deployed.code, 1);
  const failed = JSON.parse(deployed.stdout) as { image: string; operations: Operation[] };
  assert.deepEqual([failed.image, ends(failed.operations)], [value.image, ['release failed']]);
  assert.match(deployed.stderr, /failed: no room/);
});

test('an image of a registry is fetched by an operation of its own', async () => {
  await using cluster = await openCluster();
  const { desk, controller } = cluster;
  const running = desk.run(['-a', 'shop', 'deploy', '--image', 'registry.example.com/team/app:1.4']);
  const runner = new TestRunner({ client: controller.client, id: 'r1', clusterKey: controller.key });
  await runner.register();
  const build = await runner.claim();
  assert.deepEqual([build.kind, build.input], ['build', { imageRef: 'registry.example.com/team/app:1.4' }]);
  await runner.finish(build.id, 'complete', { output: { resultDigest: 'r' } });
  const release = await runner.claim();
  assert.deepEqual([release.kind, release.dependsOn], ['release', [build.id]]);
  await runner.finish(release.id, 'failed', { error: 'enough' });
  assert.match((await running).stderr, /failed: enough/);
});

test('with --expires what no runner begins in time fails, and what follows it is cancelled', async () => {
  await using cluster = await openCluster();
  const { desk, controller } = cluster;
  const wrong = await desk.run(['-a', 'shop', 'deploy', '--image', 'registry.example.com/a:1', '--expires', 'soon']);
  assert.equal(wrong.code, 2);
  assert.match(wrong.stderr, /"soon" is no length of time/);
  const unused = await desk.run(['image', 'push', '--file', cluster.file, '--no-deploy', '--expires', '60s']);
  assert.equal(unused.code, 2);
  assert.match(unused.stderr, /--expires is for rolling it out/);
  const running = desk.run(['-a', 'shop', 'deploy', '--image', 'registry.example.com/a:1', '--expires', '60s']);
  const queued = await waitFor(
    async () => {
      const all = await controller.client.call(operations.list, { params: { app: 'shop' } });
      return all.length === 3 ? all : undefined;
    },
    { what: 'the operations to be queued', deadlineMs: 60_000, intervalMs: 20 },
  );
  const build = queued.find(({ kind }) => kind === 'build');
  assert.deepEqual(
    queued.filter(({ expiresAt }) => expiresAt !== undefined),
    [build],
  );
  await watchAt(controller)(Date.parse(build?.expiresAt ?? ''));
  const ended = await running;
  assert.equal(ended.code, 1);
  assert.match(ended.stderr, /failed: it expired at 2.*: no runner had taken it/);
  const all = await controller.client.call(operations.list, { params: { app: 'shop' } });
  const ends = new Set(all.map(({ kind, state }) => `${kind} ${state}`));
  assert.deepEqual(ends, new Set(['build failed', 'release cancelled', 'deploy cancelled']));
});

test('logins for registries are the runner’s, without their passwords being told', async () => {
  await using cluster = await openCluster();
  const { desk, controller } = cluster;
  const { app: runner } = await controller.deployApp('runner', { runner: {} }, { isSystem: true });
  const login = ['registry', 'login', 'registry.example.com', '-u', 'me'];
  assert.match((await desk.run(login)).stderr, /no password on standard input/);
  const kept = await desk.run(login, { input: 'secret word\n' });
  assert.equal(kept.code, 0, kept.stderr);
  assert.match(kept.stdout, /^runners have logins for registry\.example\.com$/m);
  const params = { group: 'flynn', version: 'v1', kind: 'RunnerEnv', name: 'all' };
  const loginsNow = async (): Promise<unknown> => {
    const { env } = (await controller.client.call(generic.get, { params })).spec as { env: Record<string, string> };
    return JSON.parse(env['FLYNN_REGISTRY_LOGINS'] ?? '');
  };
  assert.deepEqual(await loginsNow(), { 'registry.example.com': { username: 'me', password: 'secret word' } });
  assert.doesNotMatch((await desk.run(['runner', 'env'])).stdout, /secret/);
  const now = await controller.client.call(apps.get, { params: { app: 'runner' } });
  assert.equal(now.releaseId, runner.releaseId, 'no runner is started anew');
  const listed = (await desk.run(['registry'])).stdout;
  assert.match(listed, /^registry\.example\.com +me$/m);
  assert.doesNotMatch(listed, /secret/);
  assert.match((await desk.run(['registry', 'logout', 'other'])).stderr, /no login for other/);
  await desk.run(['registry', 'logout', 'registry.example.com']);
  assert.doesNotMatch((await desk.run(['registry'])).stdout, /example/);
  assert.match((await desk.run(['registry', 'login', 'https://a/b', '-u', 'me'])).stderr, /is no registry/);
});

test('logins that the app “runner” held before stay, until there are others', async () => {
  await using cluster = await openCluster();
  const { desk, controller } = cluster;
  await controller.deployApp('runner', { runner: {} }, { isSystem: true });
  const before = JSON.stringify({ 'old.example.com': { username: 'old', password: 'x' } });
  await desk.run(['-a', 'runner', 'env', 'set', `FLYNN_REGISTRY_LOGINS=${before}`]);
  assert.match((await desk.run(['registry'])).stdout, /^old\.example\.com +old$/m);
  const login = ['registry', 'login', 'new.example.com', '-u', 'new'];
  const added = await desk.run(login, { input: 'y\n' });
  assert.match(added.stdout, /^runners have logins for old\.example\.com, new\.example\.com$/m);
  assert.equal((await desk.run(['registry', 'logout', 'old.example.com'])).code, 0);
  assert.equal((await desk.run(['registry', 'logout', 'new.example.com'])).code, 0);
  assert.doesNotMatch((await desk.run(['registry'])).stdout, /example/);
});

test('wrong words are told before anything is sent', async () => {
  await using cluster = await openCluster();
  const { desk, file } = cluster;
  const cases: [string[], number, RegExp][] = [
    [['image', 'push'], 2, /push which image\?/],
    [['image', 'push', 'a', '--file', file], 2, /push which image\?/],
    [['image', 'push', '--file', file], 1, /which app\?/],
    [['image', 'push', '--file', file, '-a', 'shop', '-p', 'web'], 2, /write TYPE="COMMAND"/],
    [['image', 'push', '--file', join(desk.home, 'none'), '--no-deploy'], 1, /ENOENT|none/],
    [['-a', 'shop', 'deploy'], 2, /deploy what\?/],
    [['-a', 'shop', 'deploy', '--image', 'redis:7'], 1, /REGISTRY\/NAME:TAG/],
    [['-a', 'shop', 'deploy', '--image', `sha256:${'0'.repeat(64)}`], 1, /has no image sha256:0/],
  ];
  for (const [argv, code, pattern] of cases) {
    const ran = await desk.run(argv);
    assert.equal(ran.code, code, argv.join(' '));
    assert.match(ran.stderr, pattern);
  }
});

test('help is no JSON value: who asks for one is told what to write', async () => {
  await using desk = await Desk.open();
  assert.match((await desk.run(['image'])).stdout, /^Usage: flynn image/);
  const { code, stdout, stderr } = await desk.run(['image', '--json']);
  assert.deepEqual([code, stdout], [2, '']);
  assert.match(stderr, /write "flynn image push"/);
});
