/** A runner outside of the cluster: it needs nobody's key, and what it knows of registries stays with it. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { releases } from '@flynn/controller/api';
import { generic } from '@flynn/controller/generic/api';
import { type Operation } from '@flynn/controller/model';
import { operations } from '@flynn/controller/operations/api';
import { createLogger } from '@flynn/kit/log';
import { PassThrough } from 'node:stream';
import { startRegistry } from './registry/registry-fixture.ts';
import { type World, behave, outcome, push, startOwnRunner, startRunner, startWorld } from './runner-fixture.ts';

const login = { username: 'deployer', password: 'correct-horse-battery' };
const encoded = Buffer.from(`${login.username}:${login.password}`).toString('base64');

const setForRunners = ({ controller }: World, env: Record<string, string>) => {
  const params = { group: 'flynn', version: 'v1', kind: 'RunnerEnv', name: 'all' };
  return controller.client.call(generic.put, { params, body: { spec: { env } } });
};

async function fetchImage(
  { controller }: World,
  image: string,
  target?: Operation['target'],
): Promise<Operation | undefined> {
  const [operation] = await controller.client.call(operations.create, {
    params: { app: 'shop' },
    body: { operations: [{ kind: 'build', input: { imageRef: image }, target }] },
  });
  return operation;
}

async function configFile(auths: object): Promise<AsyncDisposable & { file: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-docker-'));
  const file = join(folder, 'config.json');
  await writeFile(file, JSON.stringify({ auths }));
  return { file, [Symbol.asyncDispose]: () => rm(folder, { recursive: true, force: true }) };
}

test('it builds, releases and deploys with nothing but its own token, through the controller alone', async () => {
  await using world = await startWorld();
  behave(world, { build: { is: 'exit', code: 0, lines: ['compiling'] } });
  const chain = await push(world, {});
  await using _runner = await startOwnRunner(world, { id: 'office' });
  const deployed = await outcome(world, chain[2]?.id);
  assert.deepEqual(
    [deployed.operation.state, deployed.operation.runnerId],
    ['complete', 'office'],
    deployed.lines.join('\n'),
  );
  assert.ok((await outcome(world, chain[0]?.id)).lines.includes('compiling'));
  const params = { app: 'shop', release: 'v1' };
  const { artifactId = '' } = await world.controller.client.call(releases.get, { params });
  const artifact = await world.controller.client.call(releases.getArtifact, { params: { artifact: artifactId } });
  assert.deepEqual('base' in artifact.image && artifact.image.base, 'flynn/slug-runner');
});

test('an image is fetched with the login that the runner holds, of which nobody else has anything', async () => {
  await using world = await startWorld();
  await using registry = await startRegistry(login);
  await using config = await configFile({ [registry.host]: { auth: encoded } });
  const written = new PassThrough();
  const log = createLogger('runner', { destination: written });
  // For the platform's runners.
  await setForRunners(world, { FLYNN_PLAIN_REGISTRIES: registry.host });
  const plain = [registry.host];
  const image = `${registry.host}/team/app:1.4`;
  await using _platform = startRunner(world);
  const labels = { registry: 'team' };
  await using _own = await startOwnRunner(world, { id: 'office', log, labels, plain, registryConfig: config.file });

  const without = await outcome(world, (await fetchImage(world, image, { runnerId: 'runner' }))?.id);
  assert.match(without.operation.error ?? '', /without a login: .*--runner names a runner that has its own/);
  const fetched = await outcome(world, (await fetchImage(world, image, { labels }))?.id);
  assert.deepEqual(
    [fetched.operation.state, fetched.operation.runnerId],
    ['complete', 'office'],
    fetched.lines.join('\n'),
  );

  const { entries } = await world.controller.store.list('/');
  const kept = entries.map(({ key, value }) => `${key} ${value}`).join('\n');
  const logged = String(written.read());
  assert.ok(
    kept.includes('/flynn-audit/') && kept.includes(fetched.operation.id) && logged.includes('operation ended'),
  );
  for (const text of [kept, logged, ...fetched.lines]) {
    assert.ok(!text.includes(login.password) && !text.includes(encoded), 'the login went no further');
  }
});

test('a layer that only others have here it fetches all the same, whoever asked; what it stored for the app is there', async () => {
  await using world = await startWorld();
  await using registry = await startRegistry(login);
  await using config = await configFile({ [registry.host]: { auth: encoded } });
  await using _own = await startOwnRunner(world, { id: 'office', plain: [registry.host], registryConfig: config.file });
  await world.blobs.put('layer');
  const lines: string[] = [];
  for (const _time of [1, 2]) {
    const fetched = await outcome(world, (await fetchImage(world, `${registry.host}/team/app:1.4`))?.id);
    assert.equal(fetched.operation.state, 'complete', fetched.lines.join('\n'));
    lines.push(...fetched.lines.filter((line) => line.includes('layer of')).map((line) => line.trim()));
  }
  assert.deepEqual(lines, ['layer of 0.0 MB', 'layer of 0.0 MB: there already']);
});

test('what the runner holds counts more than what the cluster keeps, and its refusal says whose it is', async () => {
  await using world = await startWorld();
  await using registry = await startRegistry(login);
  await using config = await configFile({ [registry.host]: { username: 'deployer', password: 'old' } });
  const kept = JSON.stringify({ [registry.host]: login });
  await setForRunners(world, { FLYNN_REGISTRY_LOGINS: kept });
  await using _own = await startOwnRunner(world, { id: 'office', plain: [registry.host], registryConfig: config.file });
  const image = `${registry.host}/team/app:1.4`;
  const refused = await outcome(world, (await fetchImage(world, image))?.id);
  const pattern = /with the login that its runner has: "docker login 127\.0\.0\.1:\d+" on the machine of that runner/;
  assert.match(refused.operation.error ?? '', pattern);
  // Who logs in anew need not start it anew.
  await writeFile(config.file, JSON.stringify({ auths: { [registry.host]: { auth: encoded } } }));
  assert.equal((await outcome(world, (await fetchImage(world, image))?.id)).operation.state, 'complete');
  await writeFile(config.file, '{"auths":{},"credsStore":"desktop"}');
  const helped = await outcome(world, (await fetchImage(world, image))?.id);
  assert.match(helped.operation.error ?? '', /config\.json leaves logins to the credential helper "desktop"/);
});

test('it fetches from no registry that it was not started with', async () => {
  await using world = await startWorld();
  await using registry = await startRegistry(login);
  const kept = JSON.stringify({ [registry.host]: login });
  await setForRunners(world, { FLYNN_PLAIN_REGISTRIES: registry.host, FLYNN_REGISTRY_LOGINS: kept });
  await using _office = await startOwnRunner(world, { id: 'office', only: ['registry.example.com'] });
  await using _lab = await startOwnRunner(world, { id: 'lab', only: [registry.host] });
  const image = `${registry.host}/team/app:1.4`;
  const refused = await outcome(world, (await fetchImage(world, image, { runnerId: 'office' }))?.id);
  assert.match(refused.operation.error ?? '', /fetches no images from 127\.0\.0\.1:\d+, .*FLYNN_RUNNER_REGISTRIES/);
  const fetched = await outcome(world, (await fetchImage(world, image, { runnerId: 'lab' }))?.id);
  assert.equal(fetched.operation.state, 'complete', fetched.lines.join('\n'));
});
