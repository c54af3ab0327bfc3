/** A cluster that is to keep no logins of registries takes none, by whichever way they come, and tells of those it has. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { apps, releases } from '../api.ts';
import { platform } from '../platform/api.ts';
import { generic } from '../generic/api.ts';
import { startTestController } from '../testing.ts';
import { keptLoginsCheck, keptLoginsFindings } from './findings.ts';
import { checkKeptLogins, keptLoginsIn } from './kept-logins.ts';

const logins = (...names: string[]) => ({
  FLYNN_REGISTRY_LOGINS: JSON.stringify(
    Object.fromEntries(names.map((name) => [name, { username: 'me', password: `s3cret of ${name}` }])),
  ),
});
const params = { group: 'flynn', version: 'v1', kind: 'RunnerEnv', name: 'all' };
const isRefused = (error: unknown): boolean =>
  hasCode(error, 'denied') &&
  /keeps no logins of registries \(r\.example\.com\): .*flynn runner add ID, then FLYNN_REGISTRY_CONFIG/.test(
    error.message,
  ) &&
  !error.message.includes('s3cret');

test('neither variables of runners nor a release bring a login in, and nothing of it is written', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false, keepsRegistryLogins: false });
  const { client } = world;
  assert.equal((await client.call(platform.cluster, {})).keepsRegistryLogins, false);
  const put = (env: Record<string, string>) => client.call(generic.put, { params, body: { spec: { env } } });
  await assert.rejects(put(logins('r.example.com')), isRefused);
  await put({ GOPROXY: 'https://go.example.com', FLYNN_REGISTRY_LOGINS: '{}' });
  await assert.rejects(put({ ...logins('r.example.com') }), isRefused);
  const { id } = await client.call(apps.create, { body: { name: 'runner', isSystem: true } });
  const release = (body: object) => client.call(releases.create, { params: { app: id }, body });
  await assert.rejects(release({ env: logins('r.example.com') }), isRefused);
  await assert.rejects(release({ processes: { runner: { env: logins('r.example.com') } } }), isRefused);
  const { entries } = await world.store.list('/');
  assert.ok(entries.length > 0 && entries.every(({ value }) => !value.includes('s3cret')));
});

test('what was kept before may go one by one, and may not become more', () => {
  const refuses = { keepsRegistryLogins: false };
  checkKeptLogins(refuses, [logins('a', 'b')], [logins('b')]);
  checkKeptLogins(refuses, [logins('a', 'b')], [{}]);
  assert.throws(() => checkKeptLogins(refuses, [logins('a')], [logins('a', 'r.example.com')]), isRefused);
  const other = { FLYNN_REGISTRY_LOGINS: '{"r.example.com":{"username":"me","password":"another"}}' };
  assert.throws(() => checkKeptLogins(refuses, [logins('r.example.com')], [other]), isRefused);
  checkKeptLogins({}, [], [logins('a')]);
  assert.deepEqual(Object.keys(keptLoginsIn({ FLYNN_REGISTRY_LOGINS: 'x' })), ['FLYNN_REGISTRY_LOGINS']);
});

test('what is kept all the same is told, by registry and without a password', () => {
  const found = keptLoginsFindings([{}, logins('b', 'a')], [logins('c')]);
  assert.deepEqual(
    found.map(({ what }) => what),
    [
      'it keeps logins of registries for its runners: a, b',
      'it keeps logins of registries in releases of its own apps: c',
    ],
  );
  assert.ok(!JSON.stringify(found).includes('s3cret'));
  assert.deepEqual(keptLoginsFindings([{}], []), []);
});

test('a cluster that kept some before it was told not to is told of each until it is gone', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client, deps } = world;
  const check = keptLoginsCheck({ ...deps, settings: { ...deps.settings, keepsRegistryLogins: false } });
  const registries = async () => {
    const found = await check.find(AbortSignal.timeout(30_000));
    return found.map(({ what }) => what.split(': ').at(-1));
  };
  const put = (env: Record<string, string>) => client.call(generic.put, { params, body: { spec: { env } } });
  await put(logins('a.example.com'));
  const { id } = await client.call(apps.create, { body: { name: 'runner', isSystem: true } });
  await client.call(releases.create, { params: { app: id }, body: { env: logins('b.example.com') } });
  assert.deepEqual(await registries(), ['a.example.com', 'b.example.com']);
  assert.deepEqual(await keptLoginsCheck(deps).find(AbortSignal.timeout(30_000)), []);
  await put({});
  await client.call(releases.remove, { params: { app: id, release: 'v1' } });
  assert.deepEqual(await registries(), []);
});
