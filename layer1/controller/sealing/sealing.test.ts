import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { tokens, users } from '../access/api.ts';
import { drains } from '../drains/api.ts';
import { notifications } from '../notifications/api.ts';
import { apps, deployments, jobs, releases } from '../api.ts';
import { certificates } from '../certificates/api.ts';
import { sources } from '../source/api.ts';
import { hooks } from '../source/hook/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { sealingKeys } from './api.ts';
import { sealingFindings } from './findings.ts';
import { stepSealing } from './steps.ts';
import { testSealing } from './testing.ts';
import type { TestSealing } from './testing.ts';
import { sealedUnder } from '@flynn/store/sealing/ring';

const log = silentLogger();

/** Each in its own place of the store. */
const secrets = {
  ofRelease: 'postgres://ann:hunter2@db/shop',
  ofApp: 'a-key-that-the-app-has',
  ofRun: 'told-to-one-run-only',
  ofDrain: 'sesame-open-the-drain',
  ofReceiver: 'sesame-open-the-chat',
  ofSignature: 'whsec_c2VjcmV0LW9mLXRoZS1ub3RpZmljYXRpb24=',
  ofAuthority: 'c2VjcmV0LW9mLXRoZS1iaW5kaW5n',
  ofHook: 'the-hook-is-signed-with-this',
  ofPushes: 'whsec_dGhlLWdpdC1zZXJ2aWNlLXNpZ25zLXdpdGgtdGhpcw==',
};

async function live(world: TestController): Promise<void> {
  const { client } = world;
  await client.call(apps.create, { body: { name: 'shop' } });
  const params = { app: 'shop' };
  const { id: artifactId } = await client.call(releases.createArtifact, {
    body: { type: 'image', image: { name: 'test/image' } },
  });
  const processes = { web: { ports: [{ port: 8080 }], env: { APP_KEY: secrets.ofApp } } };
  const body = { artifactId, env: { DATABASE_URL: secrets.ofRelease }, processes };
  const release = await client.call(releases.create, { params, body });
  assert.equal((await world.deploy('shop', release.id)).state, 'complete');
  await client.call(jobs.run, { params, body: { command: ['env'], env: { ONCE: secrets.ofRun } } });
  await client.call(drains.create, { body: { app: 'shop', url: `https://${secrets.ofDrain}@logs.example.com/in` } });
  const url = `https://192.0.2.1/${secrets.ofReceiver}`;
  await client.call(notifications.create, { body: { name: 'chat', url, on: ['host'], secret: secrets.ofSignature } });
  await client.call(certificates.setAuthority, {
    body: {
      directoryUrl: 'https://acme.example.com/directory',
      binding: { keyId: 'k', secret: secrets.ofAuthority },
      challenge: 'dns-01',
      hook: { url: 'https://hook.example.com/', secret: secrets.ofHook },
    },
  });
  await client.call(sources.put, { params, body: { url: 'https://198.51.100.7/shop.git' } });
  await client.call(hooks.make, { params, body: { secret: secrets.ofPushes } });
  await client.call(users.create, { body: { name: 'ann' } });
  await client.call(tokens.create, { body: { name: 'laptop', user: 'ann' } }, { headers: { 'idempotency-key': 'k' } });
  const [deployed] = await client.call(deployments.list, { params });
  assert.equal(deployed?.state, 'complete');
}

async function found({ raw }: TestSealing): Promise<string[]> {
  const whole = (await raw.list('')).entries.map(({ key, value }) => `${key} ${value}`).join('\n');
  return Object.values(secrets).filter((secret) => whole.includes(secret));
}

test('nobody finds a secret in the store after apps were made, run and deployed', async () => {
  const sealing = testSealing();
  const { raw, store } = sealing;
  await sealing.begin();
  await using world = await startTestController({ store });
  await live(world);
  assert.deepEqual([await found(sealing), await sealing.inClear()], [[], []]);
  const kinds = new Set((await raw.list('/flynn')).entries.map(({ key }) => key.split('/').slice(1, 4).join('/')));
  for (const kind of ['flynn/resource/release', 'flynn/cell/templates', 'flynn/resource/drain']) {
    assert.ok(kinds.has(kind), kind);
  }
});

test('a cluster of old goes on: what is in clear is read, then sealed, under load, and keys change', async () => {
  const sealing = testSealing();
  const { store } = sealing;
  await using world = await startTestController({ store, hasWorker: true });
  await live(world);
  assert.deepEqual(await found(sealing), Object.values(secrets));
  const list = () => world.client.call(sealingKeys.list, {});
  assert.deepEqual(await list(), { state: 'clear', keys: [] });
  await assert.rejects(world.client.call(sealingKeys.rotate, {}), /nothing is sealed yet: flynn-host bootstrap/);

  await sealing.begin();
  const epoch = { key: '/flynn/nothing', modRevision: 0 };
  const options = { signal: AbortSignal.timeout(60_000), epoch, log, settleMs: 0 };
  const through = () =>
    waitFor(() => stepSealing(store, options), { what: 'all to be sealed', deadlineMs: 60_000, intervalMs: 5 });
  await through();
  assert.deepEqual([await found(sealing), await sealing.inClear()], [[], []]);
  const first = await list();
  assert.deepEqual([first.state, first.keys.length], ['sealed', 1]);

  const begun = await world.client.call(sealingKeys.rotate, {});
  assert.deepEqual([begun.state, begun.keys.map(({ isCurrent }) => isCurrent)], ['changing', [false, true]]);
  await assert.rejects(world.client.call(sealingKeys.rotate, {}), /is not through/);
  await world.client.call(apps.create, { body: { name: 'meanwhile' } });
  await through();
  const current = (await sealing.ring())?.current;
  assert.deepEqual(
    (await list()).keys.map(({ id }) => id),
    [current],
  );
  assert.notEqual(current, first.keys[0]?.id);
  const release = await world.makeRelease('shop', { web: {} });
  assert.equal((await world.deploy('shop', release.id)).state, 'complete');
  assert.deepEqual(await found(sealing), []);
});

test('a walk that has lost its term writes nothing', async () => {
  const sealing = testSealing();
  const { raw, store } = sealing;
  await sealing.begin();
  await raw.transact({ then: [{ put: '/flynn/resource/app/a', value: '{}' }] });
  const epoch = { key: '/flynn/leader/controller-worker', createRevision: 7 };
  const isDone = await stepSealing(store, { signal: AbortSignal.timeout(60_000), epoch, log, settleMs: 0 });
  assert.equal(isDone, false);
  assert.equal((await raw.get('/flynn/resource/app/a'))?.value, '{}');
});

test('what is wrong is told: secrets in clear, a host without the key, a change that does not end', async () => {
  const sealing = testSealing();
  await sealing.begin();
  const ring = await sealing.ring();
  assert.ok(ring);
  const under = sealedUnder(ring);
  const [mine, other] = [{ id: 'h1', sealingKeyId: under }, { id: 'h2' }];
  const now = 60_000;
  const say = (facts: Partial<Parameters<typeof sealingFindings>[0]>) =>
    sealingFindings({ ring, keyIds: [under], hosts: [mine], now, ...facts }).map(
      ({ severity, subject, what }) => `${severity} ${subject} ${what}`,
    );
  assert.deepEqual(say({}), []);
  assert.deepEqual(say({ ring: undefined }), ['warning secrets they are in clear in etcd']);
  assert.match(
    sealingFindings({ ring: undefined, keyIds: [under], hosts: [other], now })[0]?.remedy ?? '',
    /up\) on h2/,
  );
  assert.deepEqual(say({ hosts: [mine, other] }), [
    "critical host h2 it has not the key that the cluster's secrets are sealed under",
  ]);
  const changing = ['warning sealing key it is being made anew, and that is not through'];
  assert.deepEqual(say({ ring: { ...ring, next: 'new' } }), changing);
  const both = { id: 'h1', sealingKeyId: 'new', sealingKeyIds: ['new', under] };
  assert.deepEqual(say({ keyIds: [under, 'new'], hosts: [both] }), changing);
  assert.deepEqual(say({ now: 3 * 3_600_000 }), ['warning secrets a change of keys is not through']);
});
