/** For tests: a cluster with something of everything on it, backed up, and restored onto another of another size. */
import assert from 'node:assert/strict';
import { buffer } from 'node:stream/consumers';
import type { BlobClient } from '@flynn/blobstore/client';
import { resourcePrefix } from '@flynn/resource/keys';
import { waitFor } from '@flynn/kit/retry';
import type { Store } from '@flynn/store/store';
import { grants, teams, tokens, users } from '../access/api.ts';
import { drains } from '../drains/api.ts';
import { notifications } from '../notifications/api.ts';
import { keys } from '../keys/api.ts';
import { apps, formations, jobs, releases } from '../api.ts';
import { routing } from '../routes/api.ts';
import { certificateType } from '../certificates/resources.ts';
import { generic } from '../generic/api.ts';
import { providers } from '../providers/api.ts';
import { providerFinalizer, resourceType } from '../providers/types.ts';
import { runners } from '../operations/api-runners.ts';
import { TestRunner } from '../operations/test-runner.ts';
import { sources } from '../source/api.ts';
import { hooks } from '../source/hook/api.ts';
import { startTestBlobs } from '../testing/blobs.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { autoscales } from '../autoscale/api.ts';
import { backups } from './api.ts';
import type { Bytes } from './archive.ts';
import { keptTypes } from './contents.ts';
import { inspectArchive } from './inspection.ts';
import type { Inspection } from './inspection.ts';
import { restoreApps, restoreBlobs, restoreRecords } from './restore.ts';
import type { RestoreSource } from './restore.ts';

const publicKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ2aZ0vQur8qIFeR7aCAUFg/SYF7aHg/RO4eWCiCJI6G me@home';
export const slugRunnerImage = 'flynn/slug-runner:new';
/** Of the cluster that is restored onto. */
export const images = { slugRunnerImage, applianceImages: ['flynn/postgres:new'] };

const runnerEnvKind = { group: 'flynn', version: 'v1', kind: 'RunnerEnv' };
/** What builds are given, with a secret in it. */
export const mirror = 'https://me:of-builds@npm.example.com';

/** Of a provider, and of what it gave. */
export const credentials = 'of-a-provider';

export type Filled = Readonly<{ token: string; digests: readonly string[] }>;

/** An app that was deployed twice and gone back from, scaled, with all that can be put around it; people; the platform's own. */
export async function fillCluster(world: TestController, blobs: BlobClient): Promise<Filled> {
  const { client } = world;
  await world.deployApp('git-receiver', { web: { env: { OWN: '1' } } }, { isSystem: true });
  await client.call(apps.create, { body: { name: 'shop', meta: { team: 'a' } } });
  const runtime = await blobs.put('the runtime');
  const digests = [runtime.digest];
  const made: string[] = [];
  for (const text of ['the first', 'the second']) {
    const { digest, sizeBytes } = await blobs.put(Buffer.alloc(200_000, text));
    digests.push(digest);
    const image = { base: 'slug-runner', layers: [runtime, { digest, sizeBytes }] };
    const artifact = await client.call(releases.createArtifact, { body: { type: 'slug', image } });
    const cron = [{ schedule: '0 3 29 2 *', command: `run ${text}` }];
    const processes = { web: { ports: [{ port: 8080 }] }, worker: {} };
    const body = { artifactId: artifact.id, env: { SECRET: `s ${text}` }, processes, cron };
    const release = await client.call(releases.create, { params: { app: 'shop' }, body });
    assert.equal((await world.deploy('shop', release.id)).state, 'complete');
    made.push(release.id);
  }
  const [first = ''] = made;
  assert.equal((await world.deploy('shop', first)).state, 'complete');
  const counts = { processes: { web: 3, worker: 1 } };
  await client.call(formations.put, { params: { app: 'shop', release: first }, body: counts });
  const scaled = { params: { app: 'shop', type: 'web' }, body: { max: 5, cpuPercent: 70 } };
  await client.call(autoscales.set, scaled);
  await client.call(apps.create, { body: { name: 'empty' } });
  const route = { type: 'http' as const, domain: 'www.example.com', service: 'shop-web' };
  await client.call(routing.create, { params: { app: 'shop' }, body: route });
  await client.call(drains.create, { body: { app: 'shop', url: 'syslog+tcp://logs.example.com:514' } });
  const receiver = { name: 'chat', url: 'https://192.0.2.1/hook', on: ['app' as const] };
  await client.call(notifications.create, { body: { app: 'shop', ...receiver } });
  await client.call(sources.put, { params: { app: 'empty' }, body: { url: 'https://git.example.com/a.git' } });
  await client.call(hooks.make, { params: { app: 'empty' }, body: {} });
  const params = { ...runnerEnvKind, name: 'all' };
  await client.call(generic.put, { params, body: { spec: { env: { NPM_CONFIG_REGISTRY: mirror } } } });
  await client.call(users.create, { body: { name: 'ada', role: 'viewer' } });
  await client.call(teams.create, { body: { name: 'makers' } });
  await client.call(teams.addMember, { params: { team: 'makers', user: 'ada' } });
  await client.call(grants.put, {
    params: { app: 'shop', kind: 'team', name: 'makers' },
    body: { role: 'developer' },
  });
  const { token } = await client.call(tokens.create, { body: { name: 'laptop', user: 'ada' } });
  await client.call(keys.create, { body: { publicKey } });
  const own = {
    certificate: 'c',
    privateKey: 'k',
    issuer: 'i',
    notBefore: 'n',
    notAfter: '2099-01-01T00:00:00Z',
    notes: [],
  };
  const spec = { source: 'own' as const, domains: ['www.example.com'], own };
  await world.deps.resources.create(certificateType, { id: 'cert', spec });
  await provide(world);
  await new TestRunner({ client, id: 'elsewhere', token: 'a-token-of-its-own' }).register();
  await client.call(runners.adopt, { params: { runner: 'elsewhere' } });
  await new TestRunner({ client, id: 'own', clusterKey: world.key }).register();
  return { token, digests };
}

/** As a provider has given it to an app that has it live; settled, so that nobody changes it while it is backed up. */
async function provide({ client, deps }: TestController): Promise<void> {
  const url = 'http://postgres.flynn/resources';
  const { id: providerId } = await client.call(providers.create, { body: { name: 'pg', url, token: credentials } });
  const { id: appId } = await client.call(apps.get, { params: { app: 'shop' } });
  const env = { DATABASE_URL: `postgres://me:${credentials}@db/shop` };
  await deps.resources.create(resourceType, {
    id: 'given',
    spec: { providerId, config: { plan: 'small' }, apps: [{ appId }] },
    status: { externalId: 'db/1', env, isAsked: true, links: { [appId]: { state: 'added' } }, refused: {} },
    finalizers: [providerFinalizer],
  });
  const isSettled = async () => (await deps.resources.get(resourceType, 'given')).conditions.length > 0;
  await waitFor(isSettled, { what: 'the resource to be settled', deadlineMs: 60_000, intervalMs: 10 });
}

/** As the host would get it. */
export async function envOfBuild(world: TestController): Promise<Record<string, string>> {
  await world.deployApp('slug-builder', { build: { command: ['build'] } }, { isSystem: true });
  const body = { operationId: 'o1', sourceDigest: 'sha256:x' };
  const { workloadId } = await world.client.call(jobs.build, { params: { app: 'shop' }, body });
  const { entries } = await world.deps.store.list(`/flynn/cell/templates/${workloadId}/`);
  return (JSON.parse(entries[0]?.value ?? '{}') as { env: Record<string, string> }).env;
}

export async function download(world: TestController): Promise<Buffer> {
  return buffer(await world.client.stream(backups.download, { body: {} }));
}

export async function* bytesOf(archive: Buffer): Bytes & AsyncGenerator<Uint8Array> {
  for (let at = 0; at < archive.length; at += 65_536) yield archive.subarray(at, at + 65_536);
}

export async function sourceOf(archive: Buffer): Promise<RestoreSource & { inspection: Inspection }> {
  const inspection = await inspectArchive(bytesOf(archive));
  return { open: () => bytesOf(archive), digest: inspection.digest, inspection };
}

/** All that is kept of a type, by key, without what tells one store from another. */
export async function recordsIn(store: Store, type: string): Promise<Map<string, Record<string, unknown>>> {
  const { entries } = await store.list(resourcePrefix(type));
  return new Map(entries.map(({ key, value }) => [key, JSON.parse(value) as Record<string, unknown>]));
}

export const types = keptTypes.map(({ name }) => name);

/** From the first to the last stage, as `up` has them, onto a cluster of so many hosts; `check` is given it. */
export async function restored(
  archive: Buffer,
  options: { store: Store; hosts: number; between?: (store: Store, source: RestoreSource) => Promise<void> },
  check: (world: TestController, blobs: BlobClient) => Promise<void>,
): Promise<void> {
  const { store, hosts, between } = options;
  const source = await sourceOf(archive);
  const step = { nowMs: Date.now(), signal: new AbortController().signal, ...images };
  assert.notEqual(await restoreRecords(store, source, step), undefined);
  await using blobStore = await startTestBlobs();
  await using world = await startTestController({ store, hosts, blobStoreUrl: blobStore.url });
  await between?.(store, source);
  const target = { baseUrl: async () => blobStore.url, key: 'k' };
  await restoreBlobs(store, target, source, step);
  await restoreApps(store, source, step);
  for (const again of [
    await restoreRecords(store, source, step),
    await restoreBlobs(store, target, source, step),
    await restoreApps(store, source, step),
  ]) {
    assert.equal(again, undefined, 'what is done is done');
  }
  await check(world, blobStore.blobs);
}
