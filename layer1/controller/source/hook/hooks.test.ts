/** Hooks from a git service to the API: what is taken, what is refused, and what either leaves behind. A runner plays the looks. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { resourceKey } from '@flynn/resource/keys';
import { grants, tokens, users } from '../../access/api.ts';
import { apps } from '../../api.ts';
import { audit } from '../../audit/api.ts';
import { certificates } from '../../certificates/api.ts';
import { createControllerClient } from '../../client.ts';
import { newSigningSecret, signatureHeaders } from '../../notifications/signature.ts';
import { operations } from '../../operations/api.ts';
import { TestRunner } from '../../operations/test-runner.ts';
import { startTestController } from '../../testing.ts';
import type { TestController } from '../../testing.ts';
import { sources } from '../api.ts';
import { sourceType } from '../resource.ts';
import { hooks } from './api.ts';
import { hookType } from './resource.ts';

const params = { app: 'shop' };
const url = 'https://git.example.com/shop.git';
const deadlineMs = 60_000;
const push = JSON.stringify({ ref: 'refs/heads/main', after: 'a'.repeat(40) });

type World = TestController & { appId: string };

/** It is looked at by itself once in a week. */
async function startWorld(options: Parameters<typeof startTestController>[0] = {}): Promise<World> {
  const world = await startTestController({ hosts: 0, hasWorker: false, ...options });
  const { id: appId } = await world.client.call(apps.create, { body: { name: 'shop' } });
  await world.client.call(sources.put, { params, body: { url, everyMs: 7 * 86_400_000 } });
  const dispose = () => world[Symbol.asyncDispose]();
  return Object.assign(Object.create(world) as TestController, { appId, [Symbol.asyncDispose]: dispose });
}

async function makeHook(world: World, body: { isRotation?: boolean; secret?: string } = {}) {
  const made = await world.client.call(hooks.make, { params, body });
  // Hooks are known by what a watch tells.
  await waitFor(async () => (await send(world, { secret: made.secret, headers: ping })).status === 200, {
    what: 'the hook to be known',
    deadlineMs,
    intervalMs: 5,
  });
  return made;
}

const ping = { 'x-github-event': 'ping' };

type Sent = { id?: string; secret?: string; body?: string; headers?: Record<string, string> };

/** As GitHub does, unless said otherwise. */
async function send({ url: at, appId }: World, { id = appId, secret, body = push, headers = {} }: Sent) {
  const signature = secret === undefined ? undefined : createHmac('sha256', secret).update(body).digest('hex');
  const answer = await fetch(`${at}/hooks/${id}`, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      'x-github-event': 'push',
      ...(signature === undefined ? {} : { 'x-hub-signature-256': `sha256=${signature}` }),
      ...headers,
    },
    body,
  });
  const { 'x-request-id': _id, date: _date, ...kept } = Object.fromEntries(answer.headers);
  return { status: answer.status, headers: kept, body: (await answer.json()) as Record<string, unknown> };
}

const look = ({ client }: TestController) => client.call(sources.get, { params });
const isWanted = async ({ deps, appId }: World) =>
  (await deps.resources.get(sourceType, appId)).status.isWanted === true;
const hookVersion = async ({ store, appId }: World) =>
  (await store.get(resourceKey(hookType.name, appId)))?.modRevision ?? 0;

test('a push to the branch makes a look, however many tell of it; one to another branch makes none', async () => {
  await using world = await startWorld({ hasWorker: true });
  const runner = new TestRunner({ client: world.client, id: 'r1', clusterKey: world.key });
  await runner.register();
  const finish = async () => {
    const poll = await runner.claim({ signal: AbortSignal.timeout(deadlineMs) });
    assert.equal(poll.kind, 'poll');
    await runner.finish(poll.id, 'complete', { output: { commit: 'a'.repeat(40) } });
    await waitFor(async () => (await look(world)).pollId === undefined, {
      what: 'the look',
      deadlineMs,
      intervalMs: 5,
    });
  };
  await finish();
  const { secret } = await makeHook(world);
  assert.equal((await look(world)).hook?.last?.outcome, 'ping');
  const other = await send(world, { secret, body: JSON.stringify({ ref: 'refs/heads/dev', after: 'b' }) });
  assert.deepEqual(
    [other.status, other.body],
    [200, { outcome: 'ignored', message: 'ignored: a push to dev, and main is what is followed' }],
  );
  assert.equal((await look(world)).hook?.last?.what, 'a push to dev, and main is what is followed');
  assert.equal(await isWanted(world), false);

  await world.stopWorker();
  const told = await Promise.all(Array.from({ length: 30 }, () => send(world, { secret })));
  for (const { status, body } of told) {
    assert.deepEqual(
      [status, body],
      [200, { outcome: 'looks', message: 'a push to main: the repository is looked at now' }],
    );
  }
  assert.equal(await isWanted(world), true);
  const before = (await world.client.call(operations.list, { params })).length;
  await world.restartWorker();
  await finish();
  const after = await world.client.call(operations.list, { params });
  assert.equal(after.filter(({ state }) => state !== 'complete').length, 0, 'one look, and none after it');
  assert.ok(after.length <= before + 1);
  const { hook, nextAt = '' } = await look(world);
  assert.deepEqual([hook?.last?.outcome, hook?.last?.what, hook?.refused], ['looks', 'a push to main', undefined]);
  assert.ok(Date.parse(nextAt) > Date.now() + 86_400_000, 'else it is looked at as before');
});

test('GitLab shows the secret or signs, with one that it has made, too', async () => {
  await using world = await startWorld();
  const given = newSigningSecret();
  const { secret } = await makeHook(world, { secret: given });
  assert.equal(secret, given);
  const headers = { 'x-gitlab-event': 'Push Hook' };
  const ofGitlab = (more: Record<string, string>) =>
    fetch(`${world.url}/hooks/${world.appId}`, { method: 'POST', headers: { ...headers, ...more }, body: push });
  const now = Date.now();
  for (const proof of [{ 'x-gitlab-token': secret }, signatureHeaders(secret, { id: 'm', body: push, now })]) {
    const answer = await ofGitlab(proof);
    assert.deepEqual([answer.status, ((await answer.json()) as { outcome: string }).outcome], [200, 'looks']);
  }
  assert.equal((await ofGitlab({ 'x-gitlab-token': `${secret}x` })).status, 401);
  const wrong = world.client.call(hooks.make, { params, body: { isRotation: true, secret: 'hunter2hunter2' } });
  await assert.rejects(wrong, (error) => hasCode(error, 'invalid') && /whsec_/.test(error.message));
});

test('whoever has no proof hears the same of a hook that is there and of one that is not, and leaves next to nothing', async () => {
  await using world = await startWorld();
  const { secret } = await makeHook(world);
  const [bad, unknown] = await Promise.all([
    send(world, { secret: newSigningSecret() }),
    send(world, { secret: newSigningSecret(), id: 'aaaaaaaaaaaa' }),
  ]);
  assert.equal(bad.status, 401);
  assert.deepEqual(bad, unknown);
  const unsigned = [await send(world, {}), await send(world, { id: 'aaaaaaaaaaaa' })];
  for (const answer of unsigned) assert.deepEqual(answer, bad);
  const tampered = createHmac('sha256', secret).update('{}').digest('hex');
  const changed = await send(world, { headers: { 'x-hub-signature-256': `sha256=${tampered}` } });
  assert.deepEqual(changed, bad);
  const refused = async () => (await look(world)).hook?.refused;
  const first = await waitFor(refused, { what: 'the refusal to be told', deadlineMs, intervalMs: 5 });
  assert.match(first.why, /another secret|not signed/);
  assert.equal(first.from, '127.0.0.1');

  const { entries: before } = await world.store.list('/');
  const crowd = Array.from({ length: 40 }, (_, index) =>
    send(world, { secret: newSigningSecret(), headers: { 'x-forwarded-for': `192.0.2.${index}` } }),
  );
  for (const { status } of await Promise.all(crowd)) assert.equal(status, 401);
  await world.web.trail.flushed();
  const { entries: after } = await world.store.list('/');
  assert.deepEqual(after, before, 'nothing was written for strangers within the minute');
  assert.equal(await isWanted(world), false);
  assert.equal((await send(world, { secret })).body['outcome'], 'looks', 'who has the secret is none the worse');
  const paths = (await world.client.call(audit.list, {})).map(({ action }) => action);
  assert.ok(paths.includes('POST /apps/:app/source/hook') && !paths.some((path) => path.includes('/hooks/')));
});

test('one address that sends without end is told to rest, before anything is read', async () => {
  await using world = await startWorld();
  const { secret } = await makeHook(world);
  let status = 200;
  const headers = { 'x-forwarded-for': '192.0.2.7' };
  for (let sent = 0; status !== 429 && sent < 2_000; sent += 20) {
    const answers = await Promise.all(Array.from({ length: 20 }, () => send(world, { headers })));
    status = Math.max(...answers.map((answer) => answer.status));
  }
  assert.equal(status, 429);
  assert.equal((await send(world, { secret, headers: { 'x-forwarded-for': '192.0.2.8' } })).status, 200);
});

test('a body that is too long to be read is proven all the same, and its connection is of use after a refusal', async () => {
  await using world = await startWorld();
  const { secret } = await makeHook(world);
  const body = JSON.stringify({ commits: 'x'.repeat(2 * 1024 ** 2), ref: 'refs/heads/dev' });
  assert.deepEqual((await send(world, { secret, body })).body, {
    outcome: 'looks',
    message: 'a push: the repository is looked at now',
  });
  for (let round = 0; round < 5; round += 1) {
    assert.equal((await send(world, { body })).status, 401, 'without a signature nothing of it is read');
    assert.equal((await send(world, { secret: newSigningSecret(), body })).status, 401);
  }
});

test('the secret is told once: of it there is nothing in answers and in the trail, and a rotation ends the former', async () => {
  await using world = await startWorld();
  const { hook, secret } = await makeHook(world);
  assert.deepEqual(hook, { url: `http://controller.flynn.localhost/hooks/${world.appId}` });
  const again = world.client.call(hooks.make, { params, body: {} });
  await assert.rejects(again, (error) => hasCode(error, 'conflict') && /--rotate/.test(error.message));
  const { secret: next } = await makeHook(world, { isRotation: true });
  assert.notEqual(next, secret);
  assert.equal((await send(world, { secret })).status, 401);
  assert.equal((await send(world, { secret: next })).status, 200);
  await world.web.trail.flushed();
  const trail = JSON.stringify(await world.client.call(audit.list, {}));
  assert.match(trail, /"type":"source-hook"[^]*"secret":"\[hidden\]"/);
  const shown = [trail, JSON.stringify(await look(world))].join('\n');
  for (const one of [secret, next]) assert.ok(!shown.includes(one) && !shown.includes(one.slice(6)));
  const kept = (await world.store.list('/')).entries.filter(({ value }) => value.includes(next));
  assert.deepEqual(
    kept.map(({ key }) => key),
    [resourceKey(hookType.name, world.appId)],
  );
});

test('the address is with https:// once a certificate is shown there, and what comes in clear is refused then', async () => {
  await using world = await startWorld();
  const { secret } = await makeHook(world);
  const clear = { 'x-forwarded-proto': 'http', 'x-forwarded-host': 'controller.flynn.localhost' };
  assert.equal((await send(world, { secret, headers: clear })).status, 200, 'there is no other way yet');
  const authority = await createAuthority('test');
  const own = await issueCertificate(authority, { name: 'controller', addresses: ['controller.flynn.localhost'] });
  await world.client.call(certificates.add, { body: { domains: ['controller.flynn.localhost'], ...own } });
  const shown = async () => (await look(world)).hook?.url === `https://controller.flynn.localhost/hooks/${world.appId}`;
  await waitFor(shown, { what: 'the certificate to be known', deadlineMs, intervalMs: 5 });
  const { status, body } = await send(world, { secret, headers: clear });
  assert.deepEqual([status, body['code']], [403, 'denied']);
  assert.equal((await send(world, { secret, headers: { ...clear, 'x-forwarded-proto': 'https' } })).status, 200);
});

test('a hook ends when it is taken back, and with its source; without a source there is none', async () => {
  await using world = await startWorld();
  const { client } = world;
  const isGone = (secret: string) =>
    waitFor(async () => (await send(world, { secret })).status === 401, { what: 'the hook to end', deadlineMs });
  const { secret } = await makeHook(world);
  await client.call(hooks.remove, { params });
  await isGone(secret);
  assert.equal((await look(world)).hook, undefined);
  const none = (error: unknown) => hasCode(error, 'not_found') && /flynn source hook -a shop/.test(error.message);
  await assert.rejects(client.call(hooks.remove, { params }), none);
  await assert.rejects(client.call(hooks.make, { params, body: { isRotation: true } }), none);
  const second = await makeHook(world);
  await client.call(sources.remove, { params });
  await isGone(second.secret);
  assert.equal(await hookVersion(world), 0);
  const noSource = (error: unknown) => hasCode(error, 'not_found') && /follows no repository/.test(error.message);
  await assert.rejects(client.call(hooks.make, { params, body: {} }), noSource);
  await client.call(sources.put, { params, body: { url } });
  assert.equal((await look(world)).hook, undefined, 'the next one begins without');
});

test('a hook that is made while its source is removed is not there after it', async () => {
  await using world = await startWorld();
  const { store, client } = world;
  const key = resourceKey(hookType.name, world.appId);
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    if (!transaction.then.some((operation) => 'put' in operation && operation.put === key)) {
      return transact(transaction, options);
    }
    store.transact = transact;
    await client.call(sources.remove, { params });
    return transact(transaction, options);
  };
  await assert.rejects(client.call(hooks.make, { params, body: {} }), (error) =>
    hasCode(error, 'conflict', 'not_found'),
  );
  assert.equal(await hookVersion(world), 0);
});

test('what a controller of the version before writes of a source, or leaves of one, does a hook no harm', async () => {
  await using world = await startWorld();
  const { secret } = await makeHook(world);
  const key = resourceKey(sourceType.name, world.appId);
  const record = JSON.parse((await world.store.get(key))?.value ?? '{}') as Record<string, unknown>;
  await world.store.transact({ then: [{ put: key, value: JSON.stringify({ ...record, generation: 2 }) }] });
  assert.equal((await send(world, { secret })).body['outcome'], 'looks');
  // It removes the source alone.
  await world.store.transact({ then: [{ delete: key }] });
  const { status, body } = await send(world, { secret });
  assert.deepEqual(
    [status, body],
    [200, { outcome: 'ignored', message: 'ignored: the app follows no repository any more' }],
  );
});

test('developers of the app make hooks, and others do not', async () => {
  await using world = await startWorld();
  for (const [name, role] of [
    ['dave', 'developer'],
    ['vera', 'viewer'],
  ] as const) {
    await world.client.call(users.create, { body: { name } });
    await world.client.call(grants.put, { params: { ...params, kind: 'user', name }, body: { role } });
    const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: name } });
    await using person = createControllerClient({ baseUrl: world.url, key: token });
    const asked = person.call(hooks.make, { params, body: {} });
    if (role === 'viewer') await assert.rejects(asked, (error) => hasCode(error, 'denied'));
    else assert.match((await asked).secret, /^whsec_/);
  }
});
