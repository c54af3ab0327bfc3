/** Who knows a digest has not got the bytes: what is registered, built or deployed is the caller's to have. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { grants, tokens, users } from '../access/api.ts';
import { apps, releases } from '../api.ts';
import { createControllerClient } from '../client.ts';
import type { BuildResult } from '../model.ts';
import { operations } from '../operations/api.ts';
import { startTestBlobs } from '../testing-blobs.ts';
import { startTestController } from '../testing.ts';
import { layers } from './api-layers.ts';

type Roles = Partial<Record<'mine' | 'theirs', 'viewer' | 'developer'>>;

const code = 'the code';
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
