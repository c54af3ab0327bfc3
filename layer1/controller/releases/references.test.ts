/** Variables that refer to others, from release to release. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { tokens, users } from '../access/api.ts';
import { audit } from '../audit/api.ts';
import { deployments, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { startTestController } from '../testing.ts';

const params = { app: 'shop' };

test('they follow what they refer to through releases that say nothing of env, until they are given a value', async () => {
  await using world = await startTestController();
  const { client } = world;
  await world.deployApp('shop', { web: {} });
  const make = async (body: Parameters<typeof client.call<typeof releases.create>>[1]['body']) => {
    const made = await client.call(releases.create, { params, body });
    await world.deploy('shop', made.id);
    return made;
  };
  const env = { USER: 'ada', PASSWORD: 'a${USER}$' };
  const references = { URL: 'pg://${USER}:${PASSWORD}@db' };
  const first = await make({ env, references });
  assert.deepEqual(first.env, { ...env, URL: 'pg://ada:a${USER}$@db' });
  assert.deepEqual(first.references, references);
  const pushed = await make({});
  assert.deepEqual([pushed.env, pushed.references], [first.env, references], 'as after a push');
  const changed = await make({ env: { ...pushed.env, PASSWORD: 'new' }, references });
  assert.equal(changed.env['URL'], 'pg://ada:new@db');
  await assert.rejects(make({ env: { USER: 'ada' }, references }), {
    code: 'invalid',
    message: /^URL refers to \$\{PASSWORD\}, and the app has no variable PASSWORD/,
  });
  const literal = await make({ env: changed.env });
  assert.deepEqual([literal.env, literal.references], [changed.env, undefined], 'who gives values gives values');
});

test('a file gives values; one that leaves them as they are leaves references', async () => {
  await using world = await startTestController();
  const { client } = world;
  await world.deployApp('shop', { web: {} });
  const references = { URL: 'pg://${USER}@db' };
  const made = await client.call(releases.create, { params, body: { env: { USER: 'ada' }, references } });
  await world.deploy('shop', made.id);
  const apply = async (spec: Record<string, unknown>) => {
    const applied = await client.call(generic.apply, {
      params: { group: 'flynn', version: 'v1', kind: 'App' },
      body: { name: 'shop', spec },
    });
    const deployment = applied.deploymentId ?? '';
    const isDone = async () =>
      (await client.call(deployments.get, { params: { deployment } })).state === 'complete' || undefined;
    await waitFor(isDone, { what: 'the deployment', deadlineMs: 60_000, intervalMs: 10 });
    const [newest] = await client.call(releases.list, { params });
    return newest;
  };
  const same = { USER: 'ada', URL: 'pg://ada@db' };
  const kept = await apply({ env: same, processes: { web: { cpuMillis: 77 } } });
  assert.deepEqual([kept?.env, kept?.references], [same, references]);
  const given = await apply({ env: { ...same, USER: 'bob' } });
  assert.deepEqual([given?.env, given?.references], [{ ...same, USER: 'bob' }, undefined]);
});

test('how they were written is for nobody who only looks, and in no trail', async () => {
  await using world = await startTestController();
  const { client } = world;
  await world.deployApp('shop', { web: {} });
  const references = { URL: 'pg://root:hunter2@${HOST}' };
  const { id } = await client.call(releases.create, { params, body: { env: { HOST: 'db' }, references } });
  await client.call(users.create, { body: { name: 'vera', role: 'viewer' } });
  const { token } = await client.call(tokens.create, { body: { name: 'test', user: 'vera' } });
  await using viewer = createControllerClient({ baseUrl: world.url, key: token });
  const shown = await viewer.call(releases.get, { params: { ...params, release: id } });
  assert.deepEqual(shown.references, { URL: '[hidden]' });
  const of = { group: 'flynn', version: 'v1', kind: 'Release' };
  const objects = await viewer.call(generic.list, { params: of });
  const trail = await client.call(audit.list, {});
  assert.match(JSON.stringify(objects), /"references":\{"URL"/);
  assert.doesNotMatch(JSON.stringify([shown, objects, trail]), /hunter2/);
});
