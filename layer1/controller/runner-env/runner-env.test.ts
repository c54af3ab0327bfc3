import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { raceAbort } from '@flynn/kit/retry';
import { tokens, users } from '../access/api.ts';
import { audit } from '../audit/api.ts';
import { builds } from '../builds/api.ts';
import { apps, jobs } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { join, newApp } from '../operations/lifecycle-fixture.ts';
import { operations } from '../operations/api.ts';
import { runners } from '../operations/api-runners.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { runnerEnv } from './api.ts';
import { envFor } from './env-for.ts';
import { versionOf } from './resource.ts';
import type { RunnerEnvSpec } from './resource.ts';

const kind = { group: 'flynn', version: 'v1', kind: 'RunnerEnv' };
let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

const put = (name: string, env: Record<string, string>, labels: Record<string, string> = {}) =>
  world.client.call(generic.put, { params: { ...kind, name }, body: { spec: { runners: labels, env } } });
const remove = (name: string) => world.client.call(generic.remove, { params: { ...kind, name } });

test('what asks for more labels counts more, and what asks for others not at all', () => {
  const all: RunnerEnvSpec[] = [
    { name: 'all', runners: {}, env: { A: 'all', B: 'all' } },
    { name: 'z', runners: { zone: 'a', gpu: 'yes' }, env: { B: 'both' } },
    { name: 'gpu=yes', runners: { gpu: 'yes' }, env: { B: 'gpu', C: 'gpu' } },
    { name: 'zone=b', runners: { zone: 'b' }, env: { A: 'b' } },
  ];
  assert.deepEqual(envFor(all, {}), { A: 'all', B: 'all' });
  assert.deepEqual(envFor(all, { gpu: 'yes' }), { A: 'all', B: 'gpu', C: 'gpu' });
  assert.deepEqual(envFor(all, { gpu: 'yes', zone: 'a', other: 'x' }), { A: 'all', B: 'both', C: 'gpu' });
  assert.deepEqual(envFor(all, { zone: 'b' }), { A: 'b', B: 'all' });
  assert.equal(versionOf({ A: '1', B: '2' }), versionOf({ B: '2', A: '1' }));
  assert.notEqual(versionOf({ A: '1' }), versionOf({ A: '2' }));
});

test('what no build or runner could use is refused before it is written, without what it holds', async () => {
  for (const [env, pattern] of [
    [{ FLYNN_BUILD_TIMEOT: '20m' }, /spec\.env\.FLYNN_BUILD_TIMEOT: .*did you mean FLYNN_BUILD_TIMEOUT\?/],
    [{ FLYNN_KEY: 'hunter2' }, /spec\.env\.FLYNN_KEY: no setting of runners or builds/],
    [{ FLYNN_BUILD_MEMORY: 'hunter2' }, /spec\.env\.FLYNN_BUILD_MEMORY: expected a size like 512MB/],
    [{ FLYNN_DEBIAN_MIRROR: 'hunter2' }, /spec\.env\.FLYNN_DEBIAN_MIRROR: /],
    [{ FLYNN_REGISTRY_LOGINS: 'hunter2' }, /spec\.env\.FLYNN_REGISTRY_LOGINS: expected JSON/],
    [{ PATH: '/hunter2' }, /spec\.env\.PATH: it would change the programs of a build/],
    [{ 'NO-NAME': 'hunter2' }, /NO-NAME/],
  ] as const) {
    await assert.rejects(put('all', env), (error) => {
      assert.ok(hasCode(error, 'invalid') && error instanceof Error);
      assert.match(error.message, pattern);
      assert.doesNotMatch(error.message, /hunter2/);
      return true;
    });
  }
  assert.deepEqual(await world.client.call(generic.list, { params: kind }), []);
});

test('it is for admins alone, sealed from who looks, and the trail tells names only', async () => {
  await put('all', { PIP_INDEX_URL: 'https://me:hunter2@pip.example.com' });
  for (const role of ['viewer', 'developer'] as const) {
    await world.client.call(users.create, { body: { name: role, role } });
    const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: role } });
    await using client = createControllerClient({ baseUrl: world.url, key: token });
    await assert.rejects(client.call(generic.list, { params: kind }), { code: 'denied' });
    await assert.rejects(client.call(generic.get, { params: { ...kind, name: 'all' } }), { code: 'not_found' });
    await assert.rejects(client.call(generic.put, { params: { ...kind, name: 'x' }, body: {} }), { code: 'denied' });
  }
  const trail = await world.client.call(audit.list, {});
  assert.match(JSON.stringify(trail), /PIP_INDEX_URL/);
  assert.doesNotMatch(JSON.stringify(trail), /hunter2/);
  await remove('all');
});

test('a runner waits for other variables than it knows, and has those of its labels', async () => {
  const runner = await join(world, 'gpu1', { token: 'a token of its own', labels: { gpu: 'yes' } });
  const params = { runner: 'gpu1' };
  const ask = (known?: string, token = 'a token of its own') =>
    world.client.call(runnerEnv.watch, { params, body: { token, ...(known === undefined ? {} : { known }) } });
  await assert.rejects(ask(), { code: 'denied' }, 'it waits to be adopted');
  await world.client.call(runners.adopt, { params });
  await assert.rejects(ask(undefined, 'a token of another'), { code: 'unauthenticated' });
  const first = await ask();
  assert.deepEqual(first.env, {});
  const waiting = ask(first.version);
  await put('other', { A: 'other' }, { gpu: 'no' });
  await put('gpu', { A: 'gpu' }, { gpu: 'yes' });
  const second = await raceAbort(waiting, AbortSignal.timeout(60_000));
  assert.deepEqual(second.env, { A: 'gpu' });
  assert.deepEqual((await ask()).env, { A: 'gpu' });
  const third = ask(second.version);
  await remove('gpu');
  assert.deepEqual(await raceAbort(third, AbortSignal.timeout(60_000)), first);
  const refused = assert.rejects(raceAbort(ask(first.version), AbortSignal.timeout(60_000)), { code: 'denied' });
  await world.client.call(runners.reject, { params });
  await put('gpu', { A: 'secret' }, { gpu: 'yes' });
  await refused;
  await Promise.all([remove('gpu'), remove('other')]);
  assert.equal(runner.id, 'gpu1');
});

test('the next build has them, over what the builder has, by the labels of the runner that it is carried out by', async () => {
  await world.deployApp('slug-builder', { build: { command: ['build'] } }, { isSystem: true });
  await newApp(world.client, 'shop');
  await put('all', { GOPROXY: 'https://all.example.com', EXTRA: '1', FLYNN_BUILD_MEMORY: '300MB' });
  await put('gpu', { GOPROXY: 'https://gpu.example.com', FLYNN_PLAIN_REGISTRIES: '10.0.0.5:5000' }, { gpu: 'yes' });
  const limits = await world.client.call(builds.limits, { params: { app: 'shop' } });
  assert.equal(limits.memory.value, 300 * 1024 ** 2);
  const runner = await join(world, 'gpu2', { token: 'a token of its own', labels: { gpu: 'yes' } });
  await world.client.call(runners.adopt, { params: { runner: 'gpu2' } });
  const envOfBuild = async (operationId: string) => {
    const body = { operationId, sourceDigest: 'sha256:x' };
    const { workloadId } = await world.client.call(jobs.build, { params: { app: 'shop' }, body });
    const { entries } = await world.store.list(`/flynn/cell/templates/${workloadId}/`);
    return entries[0]?.value ?? '';
  };
  const ofNobody = await envOfBuild('o0');
  assert.match(ofNobody, /"GOPROXY":"https:\/\/all\.example\.com"/);
  assert.match(ofNobody, /"FLYNN_BUILD_ENV":"EXTRA,GOPROXY"/);
  const body = { operations: [{ id: 'o1', kind: 'build' as const, input: {} }] };
  await world.client.call(operations.create, { params: { app: 'shop' }, body });
  await runner.claim();
  const ofRunner = await envOfBuild('o1');
  assert.match(ofRunner, /"GOPROXY":"https:\/\/gpu\.example\.com"/);
  assert.match(ofRunner, /"EXTRA":"1"/);
  assert.doesNotMatch(ofRunner, /FLYNN_PLAIN_REGISTRIES/, 'it is for runners alone');
  assert.equal((await world.client.call(apps.get, { params: { app: 'shop' } })).name, 'shop');
});
