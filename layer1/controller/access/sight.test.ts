/** What people see and may do once the gate has let them in: lists, streams, tokens, their own apps. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { platform } from '../platform/api.ts';
import { audit } from '../audit/api.ts';
import { grants, self, tokens } from './api.ts';
import { parseToken } from './token-text.ts';
import { startGateWorld } from './gate-fixture.ts';
import type { GateWorld } from './gate-fixture.ts';

let world: GateWorld['world'];
let ids: GateWorld['ids'];
let people: GateWorld['people'];
let grant: GateWorld['grant'];
let clientOf: GateWorld['clientOf'];
let knock: GateWorld['knock'];

before(async () => {
  ({ world, ids, people, grant, clientOf, knock } = await startGateWorld());
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

test('lists show only what the caller may see', async () => {
  const namesFor = async (name: string): Promise<string[]> => {
    await using client = clientOf(people.get(name)?.token ?? '');
    return (await client.call(apps.list, {})).map((app) => app.name);
  };
  assert.deepEqual(await namesFor('root'), ['other', 'router', 'shop']);
  assert.deepEqual(await namesFor('cluster-viewer'), ['other', 'router', 'shop']);
  assert.deepEqual(await namesFor('shop-viewer'), ['shop']);
  assert.deepEqual(await namesFor('foreign-admin'), ['other']);
  assert.deepEqual(await namesFor('admin-as-developer-of-other'), ['other']);
  assert.deepEqual(await namesFor('nobody'), []);
});

async function eventsOf(name: string): Promise<{ event: string; text: string }[]> {
  const ended = new AbortController();
  const seen: { event: string; text: string }[] = [];
  await using client = clientOf(people.get(name)?.token ?? '');
  for await (const { event, data } of client.events(platform.events, {}, { signal: ended.signal })) {
    if (event === 'current') break;
    seen.push({ event, text: JSON.stringify(data) });
  }
  return seen;
}

test('the stream of changes tells each only of their apps, and no variables to those who only look', async () => {
  const params = { app: 'shop' };
  await world.client.call(releases.create, { params, body: { env: { PASSWORD: 'hunter2' } } });
  const all = await eventsOf('root');
  assert.ok(all.some(({ text }) => text.includes(ids.other)) && all.some(({ text }) => text.includes('hunter2')));
  const viewer = await eventsOf('shop-viewer');
  assert.ok(viewer.some(({ event }) => event === 'release') && viewer.some(({ event }) => event === 'job'));
  assert.ok(viewer.every(({ text }) => !text.includes('hunter2') && !text.includes(ids.other)));
  assert.ok((await eventsOf('shop-developer')).some(({ text }) => text.includes('hunter2')));
  assert.deepEqual(await eventsOf('nobody'), []);
  await using foreign = clientOf(people.get('foreign-viewer')?.token ?? '');
  const asked = foreign.events(platform.events, { query: { app: 'shop' } }, { signal: AbortSignal.timeout(60_000) });
  await assert.rejects(asked.next(), (error) => hasCode(error, 'not_found'));
});

test('a grant counts at once, also for who was refused a moment ago; taken back, it counts no more', async () => {
  const token = people.get('nobody')?.token;
  assert.ok(hasCode(await knock(apps.update, token), 'not_found'));
  await grant('shop', 'user', 'nobody', 'developer');
  assert.equal(await knock(apps.update, token), 'in');
  await world.client.call(grants.remove, { params: { app: 'shop', kind: 'user', name: 'nobody' } });
  await waitFor(async () => hasCode(await knock(apps.update, token), 'not_found'), {
    what: 'the refusal',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
});

test('a stream that is open ends when its token is taken back', async () => {
  const made = await world.client.call(tokens.create, { body: { name: 'stream' } });
  await using client = clientOf(made.token);
  const stream = client.events(routing.events, {}, { signal: AbortSignal.timeout(60_000) });
  await stream.next();
  await world.client.call(tokens.revoke, { params: { token: made.token } });
  for await (const _event of stream);
  await assert.rejects(client.call(self.get, {}), (error) => hasCode(error, 'unauthenticated'));
});

test('a stream that is open ends when its token expires', async () => {
  // Long enough for the stream to be opened before, however slow that is.
  const made = await world.client.call(tokens.create, { body: { name: 'brief stream', expiresInMs: 10_000 } });
  await using client = clientOf(made.token);
  const signal = AbortSignal.timeout(60_000);
  const stream = client.events(routing.events, {}, { signal });
  await stream.next();
  for await (const _event of stream);
  assert.ok(!signal.aborted, 'the controller has ended it');
  // A timer may be a millisecond early by the clock.
  assert.ok(Date.now() >= Date.parse(made.expiresAt ?? '') - 2);
});

test('a token makes no token wider than itself', async () => {
  await using viewer = clientOf(people.get('admin-as-viewer')?.token ?? '');
  await assert.rejects(viewer.call(tokens.create, { body: { name: 'x', role: 'admin' } }), (error) =>
    hasCode(error, 'denied'),
  );
  await using ofOther = clientOf(people.get('admin-as-admin-of-other')?.token ?? '');
  await assert.rejects(ofOther.call(tokens.create, { body: { name: 'x', apps: ['shop'] } }), (error) =>
    hasCode(error, 'not_found'),
  );
  const same = await ofOther.call(tokens.create, { body: { name: 'x' } });
  assert.deepEqual(same.apps, ['other']);
  const own = await ofOther.call(tokens.list, {});
  assert.equal(own.length, 1, 'a narrow token sees itself only');
  await using developer = clientOf(people.get('cluster-developer')?.token ?? '');
  await assert.rejects(developer.call(tokens.create, { body: { name: 'x', user: 'cluster-admin' } }), (error) =>
    hasCode(error, 'denied'),
  );
  await assert.rejects(developer.call(tokens.revoke, { params: { token: same.id } }), (error) =>
    hasCode(error, 'not_found'),
  );
});

test('nothing in the store opens anything: of tokens there are only hashes, also of one that somebody else wanted to take back', async () => {
  await using viewer = clientOf(people.get('cluster-viewer')?.token ?? '');
  const params = { token: people.get('cluster-developer')?.token ?? '' };
  await assert.rejects(viewer.call(tokens.revoke, { params }), (error) => hasCode(error, 'not_found'));
  const [entry] = await waitFor(
    async () => {
      const found = await world.client.call(audit.list, { query: { user: 'cluster-viewer', limit: 1 } });
      return found[0]?.action === 'DELETE /tokens/:token' && found;
    },
    { what: 'the entry of the trail', deadlineMs: 30_000, intervalMs: 20 },
  );
  assert.deepEqual(entry?.params, { token: parseToken(params.token)?.id });
  const { entries } = await world.store.list('/');
  const secrets = [...people.values()].map(({ token }) => token.replace(/^flynn_[a-z0-9]{12}_/, ''));
  assert.ok(secrets.every((secret) => secret.length >= 10));
  const found = entries.filter(({ value }) => secrets.some((secret) => value.includes(secret)));
  assert.deepEqual(
    found.map(({ key }) => key),
    [],
  );
});

test("apps get neither the host's network nor its paths nor privileges; the platform's own do", async () => {
  const params = { app: 'shop' };
  const withNetwork = { params, body: { processes: { web: { hostNetwork: true } } } };
  await assert.rejects(world.client.call(releases.create, withNetwork), (error) => hasCode(error, 'denied'));
  const volumes = [{ name: 'cache', path: '/cache', isShared: true }];
  const sharing = { body: { processes: { web: { volumes } } } };
  await assert.rejects(world.client.call(releases.create, { ...sharing, params: { app: 'shop' } }), (error) =>
    hasCode(error, 'denied'),
  );
  await world.client.call(releases.create, { ...sharing, params: { app: 'router' } });
  await world.client.call(releases.create, { ...withNetwork, params: { app: 'router' } });
  for (const more of [{ privileged: true }, { mounts: ['/:/host'] }, { capabilities: ['SYS_ADMIN'] }]) {
    const body = JSON.stringify({ processes: { web: more } });
    const headers = { authorization: `Bearer ${world.userKey}`, 'content-type': 'application/json' };
    const answer = await fetch(`${world.url}/apps/shop/releases`, { method: 'POST', headers, body });
    assert.equal(answer.status, 400);
    assert.match(await answer.text(), /fields it does not know: processes\.web\./);
  }
  for (const name of ['/etc', '../etc', 'a/b']) {
    const volume = { processes: { web: { volumes: [{ name, path: '/data' }] } } };
    await assert.rejects(world.client.call(releases.create, { params, body: volume }), (error) =>
      hasCode(error, 'invalid'),
    );
  }
});

test('an app from before volumes were told apart names none that is the platform’s or another app’s', async () => {
  const setOwn = async (from: boolean, to: boolean) => {
    const key = `/flynn/resource/app/${ids.shop}`;
    const value = (await world.store.get(key))?.value ?? '';
    assert.ok(value.includes(`"hasOwnVolumes":${from}`), value);
    const changed = value.replace(`"hasOwnVolumes":${from}`, `"hasOwnVolumes":${to}`);
    await world.store.transact({ then: [{ put: key, value: changed }] });
  };
  const asking = (name: string) => ({
    params: { app: 'shop' },
    body: { processes: { web: { volumes: [{ name, path: '/data' }] } } },
  });
  await world.client.call(releases.create, asking('repositories'));
  await setOwn(true, false);
  for (const name of ['repositories', 'etcd', 'etcd-1a', 'blobs', `${ids.other}.web.data`]) {
    await assert.rejects(world.client.call(releases.create, asking(name)), (error) => hasCode(error, 'denied'), name);
  }
  await world.client.call(releases.create, asking('data'));
  await setOwn(false, true);
});

test('who makes an app is its admin', async () => {
  await using client = clientOf(people.get('cluster-developer')?.token ?? '');
  await client.call(apps.create, { body: { name: 'mine' } });
  assert.deepEqual(
    (await client.call(grants.list, { params: { app: 'mine' } })).map(({ name, role }) => ({ name, role })),
    [{ name: 'cluster-developer', role: 'admin' }],
  );
  await assert.rejects(client.call(apps.remove, { params: { app: 'shop' } }), (error) => hasCode(error, 'denied'));
  await client.call(apps.remove, { params: { app: 'mine' } });
  const { entries } = await world.store.list('/flynn/resource/grant/');
  assert.ok(
    entries.every(({ value }) => !value.includes('"admin"') || value.includes(ids.shop) || value.includes(ids.other)),
  );
  await assert.rejects(client.call(apps.create, { body: { name: 'mine2', isSystem: true } }), (error) =>
    hasCode(error, 'denied'),
  );
});

test('deployments are shown to those who may see their app', async () => {
  await using viewer = clientOf(people.get('shop-viewer')?.token ?? '');
  assert.equal((await viewer.call(deployments.get, { params: { deployment: ids.deployment } })).id, ids.deployment);
  await using foreign = clientOf(people.get('foreign-admin')?.token ?? '');
  await assert.rejects(
    foreign.call(deployments.get, { params: { deployment: ids.deployment } }),
    /there is no deployment/,
  );
});
