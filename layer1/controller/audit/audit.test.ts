import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { grants, tokens, users } from '../access/api.ts';
import { apps, deployments, formations, jobs, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { keys } from '../keys/api.ts';
import { operations } from '../operations/api.ts';
import { hosts } from '../hosts/api.ts';
import { createControllerClient } from '../client.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { audit } from './api.ts';
import { isRecorded } from './audited.ts';
import type { AuditEntry } from './model.ts';
import { keepDays, pruneAudit } from './reading.ts';
import { auditRoot } from './trail.ts';

const inShop = { params: { app: 'shop' } };

async function trailOf(world: TestController, query: { app?: string; user?: string } = {}): Promise<AuditEntry[]> {
  await world.web.trail.flushed();
  return world.client.call(audit.list, { query: { ...query, limit: 1_000 } });
}

async function userClient(
  world: TestController,
  name: string,
  role?: 'viewer' | 'developer' | 'admin',
): Promise<HttpClient> {
  await world.client.call(users.create, { body: { name, ...(role === undefined ? {} : { role }) } });
  const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: name } });
  return createControllerClient({ baseUrl: world.url, key: token });
}

test('an entry says who did what, from where, what it was before and what after, and holds no secret', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  await using client = await userClient(world, 'ann', 'developer');
  const { client: root } = world;
  await root.call(releases.create, { ...inShop, body: { env: { PASSWORD: 'hunter1', KEPT: 'same' } } });
  await client.call(releases.create, { ...inShop, body: { env: { PASSWORD: 'hunter2', KEPT: 'same' } } });
  await client.call(apps.update, { ...inShop, body: { meta: { team: 'blue' } } });
  await client.call(formations.put, { params: { app: 'shop', release: 'v1' }, body: { processes: { web: 2 } } });
  await root.call(hosts.cordon, { params: { host: 'host1' } });

  const all = await trailOf(world, { app: 'shop', user: 'ann' });
  assert.deepEqual(
    all.map(({ action }) => action),
    ['PUT /apps/:app/formations/:release', 'PATCH /apps/:app', 'POST /apps/:app/releases'],
  );
  const [scaled, updated, released] = all;
  assert.equal(updated?.actor.name, 'ann');
  assert.equal(updated?.app?.name, 'shop');
  assert.equal(updated?.outcome, 'done');
  assert.match(updated?.from.address ?? '', /127\.0\.0\.1/);
  const changed = updated?.changes.find(({ type }) => type === 'app');
  assert.deepEqual(
    [changed?.action, changed?.before?.['meta'], changed?.after?.['meta']],
    ['update', {}, { team: 'blue' }],
  );
  const count = scaled?.changes.find(({ type }) => type === 'formation');
  assert.deepEqual([count?.before?.['processes'], count?.after?.['processes']], [{ web: 1 }, { web: 2 }]);
  assert.equal(released?.changes.find(({ type }) => type === 'release')?.action, 'create');

  const whole = await trailOf(world);
  assert.doesNotMatch(JSON.stringify(whole), /hunter|"hash":"[0-9a-f]{64}"/);
  const cordon = whole.find(({ action }) => action === 'PUT /hosts/:host/cordon');
  assert.deepEqual(
    [cordon?.actor.kind, cordon?.changes[0]?.id, cordon?.changes[0]?.after?.['cordoned']],
    ['root', 'host1', true],
  );
  const { entries } = await world.store.list(auditRoot);
  assert.doesNotMatch(JSON.stringify(entries), /hunter/);
});

test('what changes nothing, what fails and who is turned away is in the trail too', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  await using viewer = await userClient(world, 'vic', 'viewer');
  const scale = { params: { app: 'shop', release: 'v1' }, body: { processes: { web: 1 } } };
  await world.client.call(formations.put, scale);
  await assert.rejects(world.client.call(formations.put, { ...scale, body: { processes: { web: -1 } } }));
  await assert.rejects(viewer.call(formations.put, scale), (error) => hasCode(error, 'denied'));
  await assert.rejects(viewer.call(formations.put, scale), (error) => hasCode(error, 'denied'));
  const found = (await trailOf(world)).filter(({ action }) => action.startsWith('PUT'));
  assert.deepEqual(
    found.map(({ outcome, actor }) => [outcome, actor.name]),
    [
      ['denied', 'vic'],
      ['invalid', 'root'],
      ['unchanged', 'root'],
    ],
  );
  assert.match(found[0]?.error ?? '', /needs the role developer/);
  assert.ok(found.every(({ app }) => app?.name === 'shop'));
});

test('who comes again and again with what changes nothing has one line of it, with how often it was', async () => {
  await using world = await startTestController({ hasWorker: false });
  await world.client.call(apps.create, { body: { name: 'shop' } });
  await using client = await userClient(world, 'mallory');
  const { token } = await client.call(tokens.create, { body: { name: 'second' } });
  await using second = createControllerClient({ baseUrl: world.url, key: token });
  const asked = Array.from({ length: 200 }, (_, index) => {
    const asking = index % 2 === 0 ? client : second;
    return assert.rejects(asking.call(tokens.revoke, { params: { token: `${index}`.padStart(12, 'x') } }), (error) =>
      hasCode(error, 'not_found'),
    );
  });
  await Promise.all(asked);
  const meta = { ...inShop, body: { meta: {} } };
  for (let index = 0; index < 65; index += 1) await world.client.call(apps.update, meta);
  // What is counted is told at the end, or once the minute is over.
  await world.web.trail[Symbol.asyncDispose]();
  const all = await trailOf(world);
  const refused = all.filter(({ action }) => action === 'DELETE /tokens/:token');
  assert.deepEqual(
    refused.map(({ outcome, actor, count }) => [outcome, actor.name, count]),
    [['not_found', 'mallory', 200]],
  );
  const unchanged = all.filter(({ action }) => action === 'PATCH /apps/:app');
  assert.deepEqual([unchanged.length, unchanged[0]?.count, unchanged[1]?.count], [60, 6, undefined]);
  assert.equal(all.filter(({ outcome }) => outcome === 'done').length, 4, 'what was changed is all there');
});

test('the entry is written with the change: it is there when the controller dies before anything else', async () => {
  const store = createMemoryStore();
  // What the controller does by itself is nobody's change.
  await using world = await startTestController({ store, hasWorker: false, hosts: 0 });
  const unwatched = store.transact.bind(store);
  const seen: string[][] = [];
  store.transact = (transaction, options) => {
    const puts = transaction.then.flatMap((operation) => ('put' in operation ? [operation.put] : []));
    seen.push(puts);
    return unwatched(transaction, options);
  };
  await world.client.call(apps.create, { body: { name: 'shop' } });
  const written = seen.filter((puts) => puts.some((key) => key.startsWith('/flynn/resource/')));
  assert.ok(written.length > 0);
  for (const puts of written)
    assert.ok(
      puts.some((key) => key.startsWith(auditRoot)),
      puts.join(' '),
    );
});

test('every route that changes something is recorded, but what runners say all the time and where strangers knock', async () => {
  await using world = await startTestController({ hasWorker: false, hosts: 0 });
  const silent = world.web.handlers.filter(({ route }) => route.method !== 'GET' && !isRecorded(route));
  assert.deepEqual(
    silent.map(({ route }) => route.path).filter((path) => !path.startsWith('/runners/')),
    ['/hooks/:hook'],
  );
  const unsafe = world.web.handlers.filter(({ route }) => route.method === 'GET' && route.body !== undefined);
  assert.deepEqual(unsafe, []);
});

test('a push is told as the act of whom the key belongs to', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  await using client = await userClient(world, 'ann', 'developer');
  const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl ann';
  const key = await client.call(keys.create, { body: { publicKey } });
  const { serviceToken } = await import('../access/service-token.ts');
  await using receiver = createControllerClient({
    baseUrl: world.url,
    key: serviceToken(world.userKey, 'git-receiver'),
  });
  const body = { pushId: 'p', sourceDigest: 'sha256:x', commit: 'c', branch: 'main' };
  await receiver.call(operations.push, { ...inShop, body }, { headers: { 'flynn-ssh-key': key.fingerprint } });
  const [entry] = await trailOf(world, { app: 'shop' });
  assert.deepEqual(
    [entry?.action, entry?.actor.name, entry?.actor.sshKey],
    ['POST /apps/:app/pushes', 'ann', key.fingerprint],
  );
});

test("everybody reads about themselves, an app's admin about the app, and the trail of a deleted app stays", async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  await using ann = await userClient(world, 'ann');
  await using bob = await userClient(world, 'bob');
  await world.client.call(grants.put, { params: { app: 'shop', kind: 'user', name: 'ann' }, body: { role: 'admin' } });
  await world.client.call(grants.put, {
    params: { app: 'shop', kind: 'user', name: 'bob' },
    body: { role: 'developer' },
  });
  await bob.call(routing.create, { ...inShop, body: { domain: 'shop.example.com' } });
  await world.web.trail.flushed();
  assert.deepEqual(
    (await bob.call(audit.list, {})).map(({ action }) => action),
    ['POST /apps/:app/routes'],
  );
  const forAnn = await ann.call(audit.list, {});
  assert.ok(forAnn.some(({ actor }) => actor.name === 'bob') && forAnn.some(({ actor }) => actor.name === 'root'));
  assert.ok(forAnn.every(({ app }) => app?.name === 'shop'));
  await ann.call(apps.remove, inShop);
  const left = await trailOf(world, { app: 'shop' });
  assert.equal(left[0]?.action, 'DELETE /apps/:app');
  assert.equal(left[0]?.actor.name, 'ann');
});

test('stopping a job, which is done on its host, is in the trail before it is answered', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  const [job] = await world.jobsOf('shop', 1);
  await world.client.call(jobs.stop, { params: { app: 'shop', job: job?.id ?? '' } });
  const found = await world.client.call(audit.list, {});
  assert.deepEqual([found[0]?.action, found[0]?.outcome], ['DELETE /apps/:app/jobs/:job', 'done']);
});

test('each stop of a job says which it was, however many there are', async () => {
  await using world = await startTestController();
  await world.deployApp('shop', { web: {} });
  for (let index = 0; index < 65; index += 1) {
    const before = await world.jobsOf('shop', 1);
    await world.client.call(jobs.stop, { params: { app: 'shop', job: before[0]?.id ?? '' } });
  }
  const found = await trailOf(world, { app: 'shop' });
  const stopped = found.filter(({ action }) => action === 'DELETE /apps/:app/jobs/:job');
  assert.equal(stopped.length, 65);
  assert.ok(stopped.every(({ count, outcome, params }) => count === undefined && outcome === 'done' && params['job']));
});

test('pages follow each other without gaps, and `since` and `limit` hold', async () => {
  await using world = await startTestController({ hasWorker: false });
  for (let index = 0; index < 7; index += 1) await world.client.call(apps.create, { body: { name: `app-${index}` } });
  await world.web.trail.flushed();
  const seen: string[] = [];
  let before: string | undefined;
  for (;;) {
    const query = { limit: 3, ...(before === undefined ? {} : { before }) };
    const page = await world.client.call(audit.list, { query });
    if (page.length === 0) break;
    seen.push(...page.map(({ app }) => app?.name ?? ''));
    before = page.at(-1)?.id;
  }
  assert.deepEqual(seen, ['app-6', 'app-5', 'app-4', 'app-3', 'app-2', 'app-1', 'app-0']);
  const future = new Date(Date.now() + 60_000).toISOString();
  assert.deepEqual(await world.client.call(audit.list, { query: { since: future } }), []);
  await assert.rejects(world.client.call(audit.list, { query: { limit: 100_000 } }), (error) =>
    hasCode(error, 'invalid'),
  );
});

test('the trail is bounded: what is too old and what is too much goes, the newest stays', async () => {
  await using store = createMemoryStore();
  const nowMs = Date.UTC(2030, 5, 15);
  const put = (day: string, id: string) => store.transact({ then: [{ put: `${auditRoot}${day}/${id}`, value: '{}' }] });
  const old = new Date(nowMs - (keepDays + 1) * 86_400_000).toISOString().slice(0, 10);
  await put(old, '1');
  for (const id of ['2', '3', '4']) await put('2030-06-14', id);
  await store.transact({ then: [{ put: 'seat', value: '1' }] });
  const epoch = { key: 'seat', modRevision: (await store.get('seat'))?.modRevision ?? 0 };
  await pruneAudit(store, { nowMs, keep: 10, epoch, signal: AbortSignal.timeout(60_000) });
  const keysNow = async () => (await store.list(auditRoot)).entries.map(({ key }) => key.split('/').at(-1));
  assert.deepEqual(await keysNow(), ['2', '3', '4']);
  await pruneAudit(store, { nowMs, keep: 2, epoch, signal: AbortSignal.timeout(60_000) });
  assert.deepEqual(await keysNow(), ['3', '4']);
  await pruneAudit(store, {
    nowMs,
    keep: 0,
    epoch: { key: 'seat', modRevision: 1 },
    signal: AbortSignal.timeout(60_000),
  });
  assert.deepEqual(await keysNow(), ['3', '4'], 'a worker that lost its seat forgets nothing');
});

test('a deployment is told once it is under way, and ends without another entry', async () => {
  await using world = await startTestController();
  const { deployment } = await world.deployApp('shop', { web: {} });
  const found = await waitFor(
    async () => (await trailOf(world)).find(({ action }) => action === 'POST /apps/:app/deployments'),
    {
      what: 'the entry',
      deadlineMs: 30_000,
    },
  );
  assert.ok(found.changes.some(({ type, id }) => type === 'deployment' && id === deployment.id));
  assert.equal((await world.client.call(deployments.get, { params: { deployment: deployment.id } })).state, 'complete');
});

test('what is given in the place of a token’s id is told nobody, for it may be another key that is good', async () => {
  await using world = await startTestController({ hasWorker: false });
  await using ann = await userClient(world, 'ann');
  const pasted = 'A-root-key-that-was-pasted';
  await assert.rejects(
    ann.call(tokens.revoke, { params: { token: pasted } }),
    (error) => hasCode(error, 'invalid') && !error.message.includes(pasted),
  );
  const refused = (await trailOf(world)).find(({ action }) => action === 'DELETE /tokens/:token');
  assert.deepEqual([refused?.outcome, refused?.params], ['invalid', { token: '[hidden]' }]);
  assert.ok(!JSON.stringify(refused).includes(pasted));
});

test('an entry that cannot be read stands among the others as what it is, for admins', async () => {
  await using world = await startTestController({ hasWorker: false });
  await using ann = await userClient(world, 'ann');
  for (const name of ['one', 'two', 'three']) await world.client.call(apps.create, { body: { name } });
  const made = (await trailOf(world)).filter(({ action }) => action === 'POST /apps');
  const { entries } = await world.store.list(auditRoot);
  const { key = '' } = entries.find((entry) => entry.key.endsWith(made[1]?.id ?? '')) ?? {};
  await world.store.transact({ then: [{ put: key, value: 'sealed:1:gone:AAAA' }] });
  const found = (await trailOf(world)).slice(0, 3);
  assert.deepEqual(
    found.map(({ id, outcome }) => [id, outcome]),
    made.map(({ id }, index) => [id, index === 1 ? 'unreadable' : 'done']),
  );
  assert.equal(
    (await world.client.call(audit.list, { query: { limit: 1, before: found[1]?.id } }))[0]?.id,
    made[2]?.id,
  );
  assert.deepEqual(
    (await trailOf(world, { user: 'root' })).filter(({ outcome }) => outcome === 'unreadable'),
    [],
  );
  assert.deepEqual(await ann.call(audit.list, {}), []);
});
