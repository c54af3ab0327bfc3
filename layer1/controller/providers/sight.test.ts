import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import { grants, tokens, users } from '../access/api.ts';
import { apps } from '../api.ts';
import { audit } from '../audit/api.ts';
import { createControllerClient } from '../client.ts';
import { generic } from '../generic/api.ts';
import { providers, resources } from './api.ts';
import { isCode, startProvidedWorld } from './provided-fixture.ts';
import type { ProvidedWorld } from './provided-fixture.ts';

let place: ProvidedWorld;
before(async () => {
  place = await startProvidedWorld();
});
beforeEach(() => {
  place.provider.misbehaves = undefined;
});
after(async () => {
  await place?.[Symbol.asyncDispose]();
});

test('what an app has is seen by those who see the app, and changed by developers of all apps that have it', async () => {
  const { world, provider } = place;
  await world.client.call(apps.create, { body: { name: 'mine' } });
  await world.client.call(apps.create, { body: { name: 'theirs' } });
  async function somebody(name: string, roles: Record<string, 'viewer' | 'developer'>) {
    await world.client.call(users.create, { body: { name } });
    for (const [app, role] of Object.entries(roles)) {
      await world.client.call(grants.put, { params: { app, kind: 'user', name }, body: { role } });
    }
    const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: name } });
    return createControllerClient({ baseUrl: world.url, key: token });
  }
  await using developer = await somebody('dora', { mine: 'developer' });
  await using viewer = await somebody('vera', { mine: 'viewer' });
  await using both = await somebody('bea', { mine: 'developer', theirs: 'developer' });
  await using foreign = await somebody('fred', { theirs: 'developer' });
  const params = { provider: 'pg' };
  const asked = provider.seen.length;
  for (const [client, body, code] of [
    [viewer, { apps: ['mine'] }, 'denied'],
    [developer, { apps: ['mine', 'theirs'] }, 'not_found'],
    [developer, {}, 'invalid'],
  ] as const) {
    await assert.rejects(client.call(resources.create, { params, body: { ...body, apps: [...(body.apps ?? [])] } }), {
      code,
    });
  }
  assert.equal(provider.seen.length, asked, 'nobody was asked for anything');
  const { id } = await developer.call(resources.create, { params, body: { apps: ['mine'] } });
  const one = { params: { resource: id } };
  for (const client of [developer, viewer, both]) {
    assert.equal((await client.call(resources.get, one)).id, id);
    assert.deepEqual(
      (await client.call(resources.list, {})).map((each) => each.id),
      [id],
    );
    const generally = await client.call(generic.list, { params: { group: 'flynn', version: 'v1', kind: 'Resource' } });
    assert.deepEqual(
      generally.map(({ name }) => name),
      [id],
    );
  }
  await assert.rejects(foreign.call(resources.get, one), { code: 'not_found' });
  await assert.rejects(foreign.call(resources.remove, one), { code: 'not_found' });
  assert.deepEqual(await foreign.call(resources.list, {}), []);
  const toTheirs = { params: { resource: id, app: 'theirs' }, body: {} };
  await assert.rejects(foreign.call(resources.addApp, toTheirs), { code: 'not_found' });
  await assert.rejects(developer.call(resources.addApp, toTheirs), { code: 'not_found' });
  await assert.rejects(viewer.call(resources.remove, one), { code: 'denied' });
  await assert.rejects(
    developer.call(resources.remove, { ...one, query: { forget: true } }),
    isCode('denied', /only an admin of the cluster forgets a resource/),
  );
  assert.equal((await both.call(resources.addApp, toTheirs)).apps.length, 2);
  await assert.rejects(developer.call(resources.remove, one), isCode('denied', /developers of all apps that have it/));
  assert.equal((await foreign.call(resources.get, one)).id, id, 'its app has it now');
  await foreign.call(resources.removeApp, { params: toTheirs.params });
  assert.equal((await developer.call(resources.remove, one)).isGone, true);
});

test('no view, watch or audit record has what the variables or the token hold', async () => {
  const { world, provider, add, remove, get, envOf } = place;
  await world.deployApp('secretive', { web: {} });
  provider.env = { PASSWORD: 'hunter2' };
  const made = await add({ apps: ['secretive'] });
  await envOf('secretive');
  const kindOf = (kind: string) => ({ group: 'flynn', version: 'v1', kind });
  const told = [
    made,
    await get(made.id),
    await world.client.call(resources.ofProvider, { params: { provider: 'pg' } }),
    await world.client.call(providers.list, {}),
    await world.client.call(generic.list, { params: kindOf('Provider') }),
    await world.client.call(generic.list, { params: kindOf('Resource') }),
    await world.client.call(audit.list, {}),
  ];
  const stop = new AbortController();
  for await (const { event, data } of world.client.events(
    generic.watch,
    { params: kindOf('Resource') },
    { signal: AbortSignal.any([stop.signal, AbortSignal.timeout(60_000)]) },
  )) {
    told.push(data as never);
    if (event === 'current') stop.abort();
  }
  assert.match(JSON.stringify(told), /PASSWORD/);
  assert.doesNotMatch(JSON.stringify(told), /hunter/);
  const trail = JSON.stringify(await world.client.call(audit.list, { query: { app: 'secretive' } }));
  assert.match(trail, new RegExp(made.id), 'the app’s trail tells of it');
  assert.equal((await remove(made.id)).isGone, true);
});

test('a provider is an address over TLS or inside the cluster, applied as a file too, and keeps its token', async () => {
  const { world } = place;
  const put = (name: string, spec: Record<string, unknown>) =>
    world.client.call(generic.put, {
      params: { group: 'flynn', version: 'v1', kind: 'Provider', name },
      body: { spec },
    });
  for (const [url, pattern] of [
    ['http://db.example.com/', /http:\/\/ is for names of the cluster/],
    ['https://u:p@db.example.com/', /no place for a password/],
    ['https://db.example.com/?a=b', /leave out/],
    ['ftp://db.example.com/', /https:\/\//],
    ['db', /a whole address/],
  ] as const) {
    await assert.rejects(put('bad', { url }), isCode('invalid', pattern));
    await assert.rejects(
      world.client.call(providers.create, { body: { name: 'bad', url } }),
      isCode('invalid', pattern),
    );
  }
  await assert.rejects(
    put('new', { url: 'https://a.example.com', token: '[hidden]' }),
    isCode('invalid', /how it is shown/),
  );
  const made = await put('new', { url: 'http://mysql.flynn/', token: 'hunter4' });
  assert.equal(made.outcome, 'created');
  const again = await put('new', { url: 'https://a.example.com', token: '[hidden]' });
  assert.deepEqual(
    again.changes.map(({ path }) => path),
    ['spec.url'],
  );
  assert.equal((await world.client.call(providers.get, { params: { provider: 'new' } })).hasToken, true);
  const other = await put('new', { url: 'https://a.example.com', token: 'hunter5' });
  assert.deepEqual(
    other.changes.map(({ path }) => path),
    ['spec.token'],
  );
  assert.doesNotMatch(JSON.stringify([made, again, other]), /hunter/);
  await put('new', { url: 'https://a.example.com', token: null });
  assert.equal((await world.client.call(providers.get, { params: { provider: 'new' } })).hasToken, false);
  await world.client.call(providers.remove, { params: { provider: 'new' } });
  await assert.rejects(
    world.client.call(providers.get, { params: { provider: 'new' } }),
    isCode('not_found', /flynn provider/),
  );
});
