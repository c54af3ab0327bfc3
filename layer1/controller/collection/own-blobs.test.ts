/** Who knows a digest has not got the bytes: what is registered, built or deployed is the caller's to have. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { actForHeader } from '../access/act-for.ts';
import { grants, tokens, users } from '../access/api.ts';
import { serviceToken } from '../access/service-token.ts';
import { apps, releases } from '../api.ts';
import { keys } from '../keys/api.ts';
import { createControllerClient } from '../client.ts';
import { forLiveApp } from '../deps.ts';
import type { BuildResult } from '../model.ts';
import { operations } from '../operations/api.ts';
import { createOnce } from '../operations/intake.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import { layers } from './api-layers.ts';

type Roles = Partial<Record<'mine' | 'theirs', 'viewer' | 'developer'>>;

const code = 'the code';
const { signal } = new AbortController();
let store: Awaited<ReturnType<typeof startTestBlobs>>;
let world: Awaited<ReturnType<typeof startTestController>>;
let artifact: string;
let digest: string;
let source: string;
let built: string;
const clients: HttpClient[] = [];

before(async () => {
  store = await startTestBlobs();
  world = await startTestController({ blobStoreUrl: store.url });
  const { client } = world;
  for (const name of ['mine', 'theirs']) await client.call(apps.create, { body: { name } });
  ({ digest } = await store.blobs.put(code));
  ({ digest: source } = await store.blobs.put('the source'));
  const image = { base: 'slug-runner', layers: [{ digest, sizeBytes: code.length }] };
  ({ id: artifact } = await client.call(releases.createArtifact, { body: { type: 'slug', image } }));
  const body = { artifactId: artifact, processes: { web: {} } };
  await client.call(releases.create, { params: { app: 'mine' }, body });
  const push = { pushId: 'p', sourceDigest: source, commit: 'c', branch: 'main' };
  const [build] = await client.call(operations.push, { params: { app: 'mine' }, body: push });
  built = build?.id ?? '';
});
after(async () => {
  await Promise.all(clients.map((client) => client.close()));
  await world?.[Symbol.asyncDispose]();
  await store?.[Symbol.asyncDispose]();
});

async function person(name: string, roles: Roles): Promise<HttpClient> {
  await world.client.call(users.create, { body: { name } });
  for (const [app, role] of Object.entries(roles)) {
    await world.client.call(grants.put, { params: { app, kind: 'user', name }, body: { role } });
  }
  const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: name } });
  const client = createControllerClient({ baseUrl: world.url, key: token });
  clients.push(client);
  return client;
}

const recordOf = (layer: string): BuildResult => ({
  layers: [{ digest: layer, sizeBytes: code.length }],
  sizeBytes: code.length,
  processTypes: { web: 'x' },
  buildpack: 'image',
  meta: {},
});

async function bring(client: HttpClient, text: string): Promise<string> {
  const { digest: known } = await store.blobs.put(text);
  await client.call(layers.put, { query: { digest: known }, body: text });
  return known;
}

const theirs = { app: 'theirs' };

/** Everything that would have an app of theirs run, or be built of, what is mine. */
function attempts(client: HttpClient): Record<string, () => Promise<unknown>> {
  const image = { base: 'slug-runner', layers: [{ digest, sizeBytes: code.length }] };
  const queue = (one: object) => () =>
    client.call(operations.create, { params: theirs, body: { operations: [{ kind: 'release', input: {}, ...one }] } });
  return {
    'asks whether the layer is there': () => client.call(layers.stat, { params: { digest } }),
    'registers the layer': () => client.call(releases.createArtifact, { body: { type: 'slug', image } }),
    'registers it as the record of an image': () =>
      client.call(releases.createArtifact, {
        body: { type: 'image', image: { name: 'x' }, meta: { result: digest } },
      }),
    'reads the artifact': () => client.call(releases.getArtifact, { params: { artifact } }),
    'releases the artifact': () => client.call(releases.create, { params: theirs, body: { artifactId: artifact } }),
    'deploys a record of their own that names the layer': async () =>
      queue({ input: { resultDigest: await bring(client, JSON.stringify(recordOf(digest))) } })(),
    'builds the source': queue({ kind: 'build', input: { sourceDigest: source } }),
    'pushes the source': () =>
      client.call(operations.push, {
        params: theirs,
        body: { pushId: 'q', sourceDigest: source, commit: 'c', branch: 'main' },
      }),
    'releases what my build leaves': queue({ dependsOn: [built] }),
  };
}

test('of another app’s code nothing can be made by who only knows its digests, or only looks at the app', async () => {
  for (const [name, roles] of [
    ['stranger', { theirs: 'developer' }],
    ['onlooker', { theirs: 'developer', mine: 'viewer' }],
  ] as const) {
    for (const [what, attempt] of Object.entries(attempts(await person(name, roles)))) {
      const isRefused = (error: unknown) =>
        hasCode(error, 'not_found') || (hasCode(error, 'invalid') && /there is no operation/.test(String(error)));
      await assert.rejects(attempt(), isRefused, `${name} ${what}`);
    }
  }
});

test('an operation is made of what whoever asked for it has, with a token or an SSH key, and of what its app had', async () => {
  const { client } = world;
  const mallory = await person('mallory', { theirs: 'developer' });
  const dave = await person('dave', { mine: 'developer', theirs: 'developer' });
  const brought = await bring(mallory, 'of mallory');
  const queued = async (by: HttpClient, app: string): Promise<string> => {
    const body = { operations: [{ kind: 'build' as const, input: {} }] };
    const [made] = await by.call(operations.create, { params: { app }, body });
    return made?.id ?? '';
  };
  const runner = createControllerClient({ baseUrl: world.url, key: serviceToken(world.userKey, 'runner') });
  clients.push(runner);
  const missing = async (operation: string) =>
    (await runner.call(layers.missing, { params: { operation }, query: { digests: `${digest},${brought}` } })).missing;
  const byMallory = await queued(mallory, 'theirs');
  assert.deepEqual(await missing(byMallory), [digest], 'a record of hers may not name my layer');
  assert.deepEqual(await missing(await queued(dave, 'theirs')), [brought]);
  assert.deepEqual(await missing(await queued(client, 'theirs')), []);

  await using receiver = createControllerClient({
    baseUrl: world.url,
    key: serviceToken(world.userKey, 'git-receiver'),
  });
  const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';
  const { fingerprint } = await mallory.call(keys.create, { body: { publicKey } });
  const push = { pushId: 'by key', sourceDigest: source, commit: 'c', branch: 'main' };
  const [pushed] = await receiver.call(
    operations.push,
    { params: theirs, body: push },
    { headers: { [actForHeader]: fingerprint } },
  );
  assert.deepEqual(await missing(pushed?.id ?? ''), [digest], 'what she brought by a token is hers by her key');
  assert.equal('asker' in (pushed ?? {}), false);

  // Of a repository that an app follows nobody asks: what it may be made of is what the app had.
  const ofNobody = async (app: string): Promise<string> => {
    const { id: appId } = await client.call(apps.get, { params: { app } });
    const spec = { appId, kind: 'build' as const, pushId: `p ${app}`, input: {} };
    const [made] = await forLiveApp(world.deps, appId, signal, (live) =>
      createOnce(world.deps, live, [{ id: `followed-${app}`, spec }], signal),
    );
    return made?.id ?? '';
  };
  assert.deepEqual(await missing(await ofNobody('mine')), [brought]);
  assert.deepEqual(await missing(await ofNobody('theirs')), [digest, brought]);

  await client.call(users.remove, { params: { user: 'mallory' } });
  assert.deepEqual(await missing(byMallory), [digest, brought], 'who is gone has nothing');
  await assert.rejects(
    dave.call(layers.missing, { params: { operation: byMallory }, query: { digests: digest } }),
    (error) => hasCode(error, 'denied'),
  );
});

test('who is a developer of both apps may do all of it', async () => {
  const client = await person('both', { mine: 'developer', theirs: 'developer' });
  for (const [what, attempt] of Object.entries(attempts(client))) {
    // A source is of no artifact: it comes by git, or is brought.
    if (!what.endsWith('the source')) await assert.doesNotReject(attempt(), what);
  }
});

test('what somebody brings is theirs to register, build of and deploy, also where another app has the same', async () => {
  const client = await person('ann', { theirs: 'developer' });
  const own = await bring(client, code);
  assert.equal(own, digest);
  assert.equal((await client.call(layers.stat, { params: { digest } })).digest, digest);
  const image = { base: 'slug-runner', layers: [{ digest, sizeBytes: code.length }] };
  const registered = await client.call(releases.createArtifact, { body: { type: 'slug', image } });
  await client.call(releases.create, { params: theirs, body: { artifactId: registered.id, processes: { web: {} } } });
  const resultDigest = await bring(client, JSON.stringify(recordOf(digest)));
  const sourceDigest = await bring(client, 'a source');
  const asked = [
    { id: 'b', kind: 'build' as const, input: { sourceDigest } },
    { id: 'r', kind: 'release' as const, input: { resultDigest }, dependsOn: ['b'] },
  ];
  await client.call(operations.create, { params: theirs, body: { operations: asked } });
  const other = await person('bob', { theirs: 'viewer' });
  await assert.rejects(other.call(layers.stat, { params: { digest } }), (error) => hasCode(error, 'denied'));
});

test('what is no record is no image', async () => {
  const client = await person('careless', { theirs: 'developer' });
  const resultDigest = await bring(client, 'no json');
  const asked = [{ kind: 'release' as const, input: { resultDigest } }];
  await assert.rejects(
    client.call(operations.create, { params: theirs, body: { operations: asked } }),
    (error) => hasCode(error, 'invalid') && /is no JSON/.test(String(error)),
  );
});
