/** What is taken of what comes in at a hook, what is refused, and what either leaves behind. A runner plays the looks. */
import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { resourceKey } from '@flynn/resource/keys';
import { audit } from '../../audit/api.ts';
import { certificates } from '../../certificates/api.ts';
import { newSigningSecret, signatureHeaders } from '../../notifications/signature.ts';
import { operations } from '../../operations/api.ts';
import { TestRunner } from '../../operations/test-runner.ts';
import { sources } from '../api.ts';
import { sourceType } from '../resource.ts';
import { hooks } from './api.ts';
import { deadlineMs, isWanted, look, makeHook, params, push, send, startWorld, url } from './hook-fixture.ts';

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
  const told = await Promise.all(Array.from({ length: 12 }, () => send(world, { secret })));
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
  for (let sent = 0; status !== 429 && sent < 2_000; sent += 10) {
    const answers = await Promise.all(Array.from({ length: 10 }, () => send(world, { headers })));
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
    [200, { outcome: 'ignored', message: 'ignored: the app follows that repository no more' }],
  );
  // The next source is another one, and the secret of before is of no use there.
  await world.client.call(sources.put, { params, body: { url, everyMs: 7 * 86_400_000 } });
  assert.equal((await look(world)).hook, undefined);
  assert.equal((await send(world, { secret })).body['outcome'], 'ignored');
  await assert.rejects(world.client.call(hooks.make, { params, body: { isRotation: true } }), (error) =>
    hasCode(error, 'not_found'),
  );
  const next = await makeHook(world);
  assert.equal((await send(world, { secret: next.secret })).body['outcome'], 'looks');
  assert.equal((await send(world, { secret })).status, 401);
});
