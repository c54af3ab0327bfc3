import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import type { ServerEvent } from '@flynn/kit/routes';
import type { Image } from '@flynn/scheduler/job-template';
import { z } from 'zod';
import { tokens, users } from '../access/api.ts';
import { apps, formations, jobs, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import { routing } from '../routes/api.ts';
import { platform } from '../platform/api.ts';
import { sources } from '../source/api.ts';
import { hooks } from '../source/hook/api.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';

let world: TestController;
before(async () => {
  world = await startTestController();
});
after(async () => {
  await world[Symbol.asyncDispose]();
});

const isCode = (code: ErrorCode, pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);
const web = { web: { ports: [{ port: 8080 }] } };

test('creating an app makes its default route; the name is taken then; without one a name is made up', async () => {
  const app = await world.client.call(apps.create, { body: { name: 'first' } });
  const [route] = await world.client.call(routing.list, { params: { app: 'first' } });
  assert.equal(route?.domain, 'first.flynn.localhost');
  assert.equal(route?.service, 'first-web');
  assert.equal((await world.client.call(apps.get, { params: { app: app.id } })).name, 'first');
  await assert.rejects(
    world.client.call(apps.create, { body: { name: 'first' } }),
    isCode('conflict', /name first is taken/),
  );
  await assert.rejects(
    world.client.call(apps.create, { body: { name: 'Not OK' } }),
    isCode('invalid', /app name is 1 to 30 lower-case/),
  );
  const made = await world.client.call(apps.create, { body: {} });
  assert.match(made.name, /^[a-z]+-[a-z]+-\d{3}$/);
  await assert.rejects(world.client.call(apps.get, { params: { app: 'nope' } }), isCode('not_found', /no app "nope"/));
});

test('without the key nothing but /ping answers', async () => {
  const open = await fetch(`${world.url}/ping`);
  assert.equal(open.status, 200);
  assert.equal((await fetch(`${world.url}/apps`)).status, 401);
  const basic = await fetch(`${world.url}/apps`, { headers: { authorization: `Basic ${btoa(`:${world.userKey}`)}` } });
  assert.equal(basic.status, 200);
});

test('deleting an app stops its jobs and leaves no key with its id', async () => {
  const { app } = await world.deployApp('doomed', web);
  await world.client.call(formations.put, {
    params: { app: 'doomed', release: 'v1' },
    body: { processes: { web: 3 } },
  });
  await world.jobsOf('doomed', 3);
  const followed = { url: 'https://198.51.100.7/doomed.git' };
  await world.client.call(sources.put, { params: { app: 'doomed' }, body: followed });
  await world.client.call(hooks.make, { params: { app: 'doomed' }, body: {} });
  await world.client.call(jobs.run, { params: { app: 'doomed' }, body: { command: ['sleep'] } });
  const gone = await world.client.call(apps.remove, { params: { app: 'doomed' } });
  assert.deepEqual(
    { ...gone, jobs: gone.jobs >= 3 },
    { routes: 1, releases: 1, artifacts: 1, resources: 0, volumes: 0, left: { volumes: [], unasked: [] }, jobs: true },
  );
  const { entries } = await world.store.list('/flynn/');
  assert.deepEqual(
    entries.filter(({ key, value }) => key.includes(app.id) || value.includes(app.id)).map(({ key }) => key),
    [],
  );
  assert.deepEqual(
    entries.filter(({ key }) => key.includes('doomed')),
    [],
  );
  await assert.rejects(world.client.call(apps.remove, { params: { app: 'doomed' } }), isCode('not_found', /no app/));
  await world.client.call(apps.create, { body: { name: 'doomed' } });
});

test('a shared artifact outlives one of its apps', async () => {
  const artifact = await world.client.call(releases.createArtifact, { body: { type: 'image', image: { name: 'x' } } });
  for (const name of ['left', 'right']) {
    await world.client.call(apps.create, { body: { name } });
    await world.client.call(releases.create, { params: { app: name }, body: { artifactId: artifact.id } });
  }
  await world.client.call(apps.remove, { params: { app: 'left' } });
  await world.client.call(releases.getArtifact, { params: { artifact: artifact.id } });
  await world.client.call(apps.remove, { params: { app: 'right' } });
  await assert.rejects(
    world.client.call(releases.getArtifact, { params: { artifact: artifact.id } }),
    isCode('not_found', /no artifact/),
  );
});

test('a part of the platform cannot be deleted', async () => {
  await world.client.call(apps.create, { body: { name: 'router', isSystem: true } });
  await assert.rejects(
    world.client.call(apps.remove, { params: { app: 'router' } }),
    isCode('denied', /part of the platform/),
  );
});

test('a slug on the cluster’s runner gets the runner’s image', async () => {
  const artifact = await world.client.call(releases.createArtifact, {
    body: { type: 'slug', image: { base: 'slug-runner', layers: [] } },
  });
  assert.deepEqual(artifact.image, { base: 'flynn/slug-runner', layers: [] });
});

test('no artifact is of what hosts have of an app, and none of a configuration that no host would read', async () => {
  const create = (image: Image) => world.client.call(releases.createArtifact, { body: { type: 'image', image } });
  const digest = `sha256:${'a'.repeat(64)}`;
  for (const name of ['flynn-test/image:0123', 'docker.io/flynn-test/build:app', digest, 'b'.repeat(64)]) {
    await assert.rejects(create({ name }), isCode('invalid', /names no image of a registry/), name);
    await assert.rejects(create({ base: name, layers: [] }), isCode('invalid', /names no image of a registry/), name);
  }
  // Short, it is a name that happens to be of such digits.
  await create({ name: 'cafe' });
  const config = { digest, sizeBytes: 8 * 1024 ** 2 };
  await create({ config, layers: [] });
  await assert.rejects(
    create({ config: { ...config, sizeBytes: config.sizeBytes + 1 }, layers: [] }),
    isCode('invalid', /more than 8 MiB/),
  );
});

test('events tell the state, then changes, and resume where they stopped', async () => {
  const stop = new AbortController();
  const seen: ServerEvent[] = [];
  for await (const event of world.client.events(
    platform.events,
    { query: { types: 'app,route' } },
    { signal: stop.signal },
  )) {
    seen.push(event);
    if (event.event === 'current') stop.abort();
  }
  assert.ok(seen.length > 5);
  const at = seen.at(-1)?.id ?? '';
  const name = `late-${newId().slice(-6)}`;
  const app = await world.client.call(apps.create, { body: { name } });
  const later: ServerEvent[] = [];
  const again = new AbortController();
  for await (const event of world.client.events(
    platform.events,
    { query: { types: 'app,route', app: name } },
    { signal: again.signal, lastEventId: at },
  )) {
    later.push(event);
    if (later.length === 2) again.abort();
  }
  assert.deepEqual(later.map(({ event }) => event).sort(), ['app', 'route']);
  assert.ok(later.every(({ data }) => (data as { appId?: string }).appId === app.id));
  const unknown = world.client.events(
    platform.events,
    { query: { types: 'nonsense' } },
    { signal: AbortSignal.timeout(60_000) },
  );
  await assert.rejects(unknown.next(), isCode('invalid', /choose from app, release/));
});

test('a stream of one app that is resumed tells what of it is gone, and the app itself, as one that was never broken', async () => {
  const { client } = world;
  const name = `gone-${newId().slice(-6)}`;
  const { app } = await world.deployApp(name, { web: {} });
  await world.jobsOf(name, 1);
  await client.call(routing.create, { params: { app: name }, body: { domain: `${name}.example.com` } });
  await client.call(users.create, { body: { name: `u-${name}`, role: 'viewer' } });
  const { token } = await client.call(tokens.create, { body: { name: 'test', user: `u-${name}` } });
  await using viewer = createControllerClient({ baseUrl: world.url, key: token });
  const query = { types: 'app,release,job,route', app: app.id };
  let lastEventId: string | undefined;
  const first = client.events(platform.events, { query }, { signal: AbortSignal.timeout(60_000) });
  for await (const { event, id } of first) {
    lastEventId = id;
    if (event === 'current') break;
  }
  assert.ok(lastEventId !== undefined);
  const options = { signal: AbortSignal.timeout(60_000), lastEventId };
  // What every one of them is told first, so that it is known to follow.
  await client.call(apps.update, { params: { app: name }, body: { metaChange: { note: 'a' } } });
  const readers = [client, viewer].flatMap((reader) =>
    [query, { types: 'app,route' }].map((wanted) => ({
      wanted: wanted.types.split(',').toSorted(),
      events: reader.events(platform.events, { query: wanted }, options),
    })),
  );
  for (const { events } of readers) {
    const { value } = await events.next();
    assert.ok(value !== undefined);
    assert.deepEqual([value.event, (value.data as { type: string }).type], ['app', 'put']);
  }
  await client.call(apps.remove, { params: { app: name } });
  for (const { wanted, events } of readers) {
    const gone = new Set<string>();
    while (gone.size < wanted.length) {
      const { value } = await events.next();
      assert.ok(value !== undefined, `it ended after ${[...gone].join()}`);
      const { type, id, appId } = value.data as { type: string; id: string; appId?: string };
      if (type === 'delete' && (appId === app.id || id === app.id)) gone.add(value.event);
    }
    assert.deepEqual([...gone].toSorted(), wanted);
    await events.return();
  }
});

test('a stream that would go on where changes are not known any more does not begin: it is told so, and what to do', async () => {
  const open = (lastEventId: string) =>
    world.client.events(platform.events, { query: {} }, { signal: AbortSignal.timeout(60_000), lastEventId });
  await assert.rejects(open('999999999').next(), isCode('conflict', /restored/));
  const { revision } = await world.store.list('/flynn/');
  await world.client.call(apps.create, { body: { name: `late-${newId().slice(-6)}` } });
  await world.store.compact((await world.store.list('/flynn/')).revision);
  await assert.rejects(open(String(revision)).next(), isCode('conflict', /half an hour.*begin again without/));
  // No stream that breaks: who opens such a one as browsers do would come back with the same id for ever.
  const headers = { authorization: `Bearer ${world.userKey}`, 'last-event-id': String(revision) };
  const answer = await fetch(`${world.url}/events`, { headers, signal: AbortSignal.timeout(60_000) });
  assert.equal(answer.status, 409);
  assert.deepEqual(z.object({ detail: z.unknown() }).parse(await answer.json()).detail, { expired: true });
});

test('reading logs without a log aggregator says so', async () => {
  await assert.rejects(
    world.client.stream(platform.log, { params: { app: 'first' } }),
    isCode('unavailable', /log aggregator/),
  );
});

test('the cluster says what a client needs to know', async () => {
  const cluster = await world.client.call(platform.cluster, {});
  assert.equal(cluster.domain, 'flynn.localhost');
  assert.equal(cluster.gitUrl, 'ssh://git@flynn.localhost:2222');
});

test('variables hold any text but what no process can be given', async () => {
  await world.client.call(apps.create, { body: { name: 'odd' } });
  const create = (value: string) =>
    world.client.call(releases.create, { params: { app: 'odd' }, body: { env: { ODD: value } } });
  const value = 'line\r\n\t\u001b[0m"\\$(x)` \u{1f600} =';
  assert.equal((await create(value)).env['ODD'], value);
  await assert.rejects(create('a\0b'), isCode('invalid', /NUL/));
});
