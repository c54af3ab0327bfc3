import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { z } from 'zod';
import { grants, tokens, users } from '../access/api.ts';
import { apps, formations, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import type { Release } from '../model.ts';
import { generic } from '../generic/api.ts';
import { operations } from '../operations/api.ts';
import { resources } from '../providers/api.ts';
import { isCode } from '../providers/provided-fixture.ts';
import { sources } from '../source/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { volumes } from '../volumes/api.ts';
import { makeTestDatastore, withAppliances } from './datastore-fixture.ts';
import type { TestDatastore } from './datastore-fixture.ts';

let world: TestController;
let own: TestDatastore;
before(async () => {
  world = await startTestController(withAppliances);
  await world.deployApp('shop', { web: {} });
  own = await makeTestDatastore(world, { app: 'shop' });
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

type NewRelease = z.input<NonNullable<typeof releases.create.body>>;

const params = { app: 'shop-postgres' };

async function live(): Promise<Release> {
  const { releaseId = '' } = await world.client.call(apps.get, { params });
  return world.client.call(releases.get, { params: { ...params, release: releaseId } });
}

test('a datastore goes with its resource, and not as an app', async () => {
  const refused = isCode('denied', new RegExp(`goes with its resource.*: flynn resource remove ${own.resourceId}`));
  await assert.rejects(world.client.call(apps.remove, { params }), refused);
  const ofApp = { group: 'flynn', version: 'v1', kind: 'App', name: own.name };
  await assert.rejects(world.client.call(generic.remove, { params: ofApp }), refused);
  assert.equal((await world.client.call(apps.get, { params })).name, own.name);
});

test('nothing is pushed to it, built for it, or followed by it, and it is given nothing', async () => {
  const refused = isCode('denied', /is a datastore \(postgres\): what it runs is the platform/);
  const body = { pushId: 'p1', sourceDigest: 'sha256:x', commit: 'c', branch: 'main' };
  await assert.rejects(world.client.call(operations.push, { params, body }), refused);
  const one = { kind: 'release' as const, input: {} };
  await assert.rejects(world.client.call(operations.create, { params, body: { operations: [one] } }), refused);
  const source = { url: 'https://git.example.com/a.git', branch: 'main' };
  await assert.rejects(world.client.call(sources.put, { params, body: source }), refused);
  await assert.rejects(
    world.client.call(resources.create, { params: { provider: 'postgres' }, body: { apps: [own.name] } }),
    isCode('denied', /is given nothing itself/),
  );
  await assert.rejects(
    world.client.call(apps.create, {
      body: { name: 'copy', meta: { 'review.of': own.id }, reviewMs: 60_000 },
    }),
    isCode('denied', /it has no review apps/),
  );
});

test('people change limits, constraints and variables of their own, and nothing that members go by', async () => {
  const { env, processes, artifactId } = await live();
  const member = processes['postgres'];
  assert.ok(member !== undefined && artifactId !== undefined);
  const make = (body: NewRelease) => world.client.call(releases.create, { params, body });
  const other = await world.client.call(releases.createArtifact, { body: { type: 'image', image: { name: 'x/y' } } });
  const withMember = (more: Partial<Release['processes'][string]>): NewRelease => ({
    processes: { postgres: { ...member, ...more } },
  });
  const cases: [NewRelease, RegExp][] = [
    [{ artifactId: other.id }, /another image is refused/],
    [{ links: ['blog-web'] }, /another link is refused/],
    [{ scripts: { release: 'true' } }, /another script is refused/],
    [{ cron: [{ schedule: '@daily', command: 'true' }] }, /another schedule is refused/],
    [{ env: {} }, /POSTGRES_PASSWORD is not set or unset by hand/],
    [{ env: { ...env, POSTGRES_SUPERUSER_PASSWORD: 'x' } }, /POSTGRES_SUPERUSER_PASSWORD is not set/],
    [{ env: { ...env, PATRONI_LOG_LEVEL: 'DEBUG' } }, /PATRONI_LOG_LEVEL is not set/],
    [{ env, references: { PGOPTIONS: 'x' } }, /PGOPTIONS is not set/],
    [{ processes: {} }, /the process type postgres stays/],
    [{ processes: { ...processes, sh: { command: ['sh'] } } }, /the process type sh is refused/],
    [withMember({ volumes: [] }), /volumes of postgres stays/],
    [withMember({ ports: [] }), /ports of postgres stays/],
    [withMember({ command: ['sh'] }), /command of postgres stays/],
    [withMember({ links: ['blog-web'] }), /links of postgres stays/],
    [withMember({ constraints: [] }), /on hosts of their own/],
    [withMember({ env: { POSTGRES_HOST: 'x' } }), /POSTGRES_HOST is not set/],
  ];
  for (const [body, pattern] of cases) {
    await assert.rejects(make(body), isCode('denied', pattern), JSON.stringify(body));
  }
  await assert.rejects(make(withMember({ memoryBytes: 64 * 1024 ** 2 })), isCode('invalid', /give it 192MB at least/));
  const more = { attribute: 'tag.disk', operator: 'in' as const, values: ['fast'] };
  const made = await make({
    env: { ...env, TZ: 'UTC' },
    ...withMember({ memoryBytes: 1024 ** 3, constraints: [...(member.constraints ?? []), more], env: { LANG: 'C' } }),
  });
  assert.equal(made.env['TZ'], 'UTC');
  assert.equal(made.processes['postgres']?.memoryBytes, 1024 ** 3);
});

test('who reads no values changes the rest all the same: what they were not shown stays as it was', async () => {
  await world.client.call(users.create, { body: { name: 'dora' } });
  const grant = { params: { app: 'shop', kind: 'user', name: 'dora' }, body: { role: 'developer' as const } };
  await world.client.call(grants.put, grant);
  const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: 'dora' } });
  await using developer = createControllerClient({ baseUrl: world.url, key: token });
  const { releaseId = '' } = await developer.call(apps.get, { params });
  const seen = await developer.call(releases.get, { params: { ...params, release: releaseId } });
  assert.equal(seen.env['POSTGRES_PASSWORD'], '[hidden]');
  const made = await developer.call(releases.create, {
    params,
    body: { env: { ...seen.env, TZ: 'UTC' }, processes: seen.processes },
  });
  const whole = await world.client.call(releases.get, { params: { ...params, release: made.id } });
  assert.deepEqual(whole.env, { ...own.secrets, TZ: 'UTC' });
});

test('no other app announces what a datastore is known by, not by a release from before it either', async () => {
  const named = (name: string) => ({ web: { ports: [{ port: 8080, service: { name } }] } });
  await world.client.call(apps.create, { body: { name: 'thief' } });
  for (const end of ['primary', 'replica', 'patroni', 'member', 'postgres']) {
    await assert.rejects(
      world.makeRelease('thief', named(`shop-postgres-${end}`)),
      isCode('denied', /is of the datastore shop-postgres/),
    );
  }
  await world.client.call(apps.create, { body: { name: 'later' } });
  const early = await world.makeRelease('thief', named('later-postgres-primary'));
  await makeTestDatastore(world, { app: 'later', members: 1 });
  await assert.rejects(world.deploy('thief', early.id), isCode('denied', /later-postgres-primary is of the datastore/));
});

test('a name that somebody announces already is no new datastore’s', async () => {
  await world.deployApp('squatter', { web: { ports: [{ port: 8080, service: { name: 'young-postgres-primary' } }] } });
  await world.client.call(apps.create, { body: { name: 'young' } });
  await assert.rejects(
    makeTestDatastore(world, { app: 'young', members: 1 }),
    /squatter announces young-postgres-primary/,
  );
});

test('a member’s volume is removed while it is stopped, but never the last', async () => {
  const { client } = world;
  const release = (await live()).id;
  const counts = (postgres: number) =>
    client.call(formations.put, { params: { ...params, release }, body: { processes: { postgres } } });
  await counts(0);
  await world.jobsOf(own.name, 0);
  const list = async () => (await client.call(volumes.list, { query: { app: own.name } })).volumes;
  const [first, second] = await list();
  assert.ok(first !== undefined && second !== undefined);
  await client.call(volumes.removeOfApp, { params: { ...params, volume: first.id } });
  await assert.rejects(
    client.call(volumes.removeOfApp, { params: { ...params, volume: second.id } }),
    isCode('conflict', new RegExp(`all of the data of shop-postgres.*flynn resource remove ${own.resourceId}`)),
  );
  await counts(2);
  await world.jobsOf(own.name, 2);
});
