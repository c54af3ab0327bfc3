/** Stores that find each other, over HTTP. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { startServer } from '@flynn/kit/http-server';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createBlobClient } from './client.ts';
import { openDirectory } from './filesystem.ts';
import { Peers } from './peers.ts';
import type { Place } from './place.ts';
import { remoteReplica } from './replica-client.ts';
import { describeReplica } from './replica-conformance.ts';
import { blobHandlers } from './server.ts';
import { BlobStore } from './store.ts';
import { MemoryReplica } from './testing.ts';

/** Without a place its disk is its own. */
async function startStore(t: TestContext, host: string, given?: Place) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-blobs-'));
  const place = given ?? { own: await openDirectory(dir, { nowMs: Date.now() }) };
  const { own } = place;
  const peers = new Peers({ host, key: 'k' });
  peers.set([]);
  const log = silentLogger();
  const store = new BlobStore({ place, peers, log, copyBytesPerSecond: 1e9 });
  const handlers = [...blobHandlers(store.storage), ...store.handlers];
  const server = await startServer({ name: 'blobstore', handlers, key: 'k', host: '127.0.0.1', port: 0, log });
  const stop = new AbortController();
  const running = Promise.all([store.run(stop.signal), peers.followPlaces(() => store.status.place, stop.signal)]);
  const client = createBlobClient({ baseUrl: server.url, key: 'k' });
  const address = `127.0.0.1:${server.port}`;
  const off = async () => {
    stop.abort();
    await running;
    await Promise.all([client.close(), server.close(), peers.close()]);
  };
  t.after(async () => {
    await off();
    await rm(dir, { recursive: true });
  });
  const pathOf = (digest: string) => join(dir, 'blobs', 'sha256', digest.slice(7, 9), digest.slice(7));
  return {
    host,
    address,
    own,
    client,
    peers,
    pathOf,
    off,
    meet: (all: readonly Met[]) => meet(peers, store, all),
    server,
  };
}

type Met = { host: string; address: string };

/** As discovery tells it, this store included. */
function meet(peers: Peers, store: BlobStore, all: readonly Met[]): void {
  const instances = all.map(({ host, address }) => ({ id: host, address, attributes: { host } }));
  if (peers.set(instances)) store.onPeersChanged();
}

describeReplica('copies of another store', async (t) => {
  const { server } = await startStore(t, 'h1');
  const http = new HttpClient({ baseUrl: server.url, key: 'k', name: 'the blob store' });
  t.after(() => http.close());
  return remoteReplica(http);
});

test('one store grows to three, and two of them may be lost', async (t) => {
  const data = randomBytes(3_000_000);
  const first = await startStore(t, 'h1');
  const { digest } = await first.client.put(data);
  await first.client.putName('cache/a', digest);
  const others = [await startStore(t, 'h2'), await startStore(t, 'h3')];
  const [second, third] = others;
  assert.ok(second && third);
  for (const store of [first, second, third]) store.meet([first, second, third]);
  // At once, from another store.
  assert.ok(data.equals(await buffer(await third.client.get(digest))));
  assert.deepEqual(await second.client.getName('cache/a'), { digest, sizeBytes: data.length });
  const isWhole = async () => {
    const { stores } = await third.client.replication();
    const isCompared = stores.every(({ status }) => status?.comparedAt !== undefined && status.missing.count === 0);
    const held = await Promise.all([first, second, third].map(({ own }) => own.find(digest)));
    return stores.length === 3 && isCompared && held.every((one) => one !== undefined);
  };
  await waitFor(isWhole, { what: 'three whole stores', deadlineMs: 60_000 });
  await Promise.all([first.off(), second.off()]);
  third.meet([third]);
  assert.ok(data.equals(await buffer(await third.client.get(digest))));
  assert.deepEqual(await third.client.getName('cache/a'), { digest, sizeBytes: data.length });
});

test('what was stored is on two disks when it is answered, and on none that is removed', async (t) => {
  const [first, second] = [await startStore(t, 'h1'), await startStore(t, 'h2')];
  for (const store of [first, second]) store.meet([first, second]);
  const { digest } = await first.client.put('precious');
  assert.equal(await readFile(second.pathOf(digest), 'utf8'), 'precious');
  await second.client.remove(digest);
  await assert.rejects(readFile(first.pathOf(digest)), /ENOENT/);
  await assert.rejects(first.client.stat(digest), (error) => hasCode(error, 'not_found'));
});

test('a put that waits for a store ends when discovery forgets it', async (t) => {
  const [first, second] = [await startStore(t, 'h1'), await startStore(t, 'h2')];
  first.meet([first, second]);
  await second.off();
  const put = first.client.put('x');
  const { stores } = await first.client.replication();
  assert.match(stores.find(({ host }) => host === 'h2')?.problem ?? '', /the blob store on h2/);
  first.meet([first]);
  assert.equal((await put).sizeBytes, 1);
});

test('a blob damaged on one disk is healed from the other by being read', async (t) => {
  const [first, second] = [await startStore(t, 'h1'), await startStore(t, 'h2')];
  // By itself in each: one that takes it over reads it, and what was read is good for a day.
  const { digest } = await first.client.put('precious');
  await second.client.put('precious');
  await writeFile(first.pathOf(digest), 'precioux');
  for (const store of [first, second]) store.meet([first, second]);
  await assert.rejects(async () => buffer(await first.client.get(digest)), /is damaged/);
  const isHealed = async () => (await readFile(first.pathOf(digest), 'utf8')) === 'precious';
  await waitFor(isHealed, { what: 'the damaged blob to be replaced', deadlineMs: 60_000 });
});

test('stores that keep their blobs in the same bucket do not wait for each other', async (t) => {
  const shared = { own: new MemoryReplica({ now: () => Date.now() }), shared: 's3://b/' };
  const [one, other, elsewhere] = [
    await startStore(t, 'h1', shared),
    await startStore(t, 'h2', shared),
    await startStore(t, 'h3', { ...shared, shared: 's3://c/' }),
  ];
  one.meet([one, other, elsewhere]);
  const stop = new AbortController();
  const following = one.peers.followPlaces(() => 's3://b/', stop.signal);
  const isKnown = () => one.peers.all?.map(({ host }) => host).join() === 'h3';
  await waitFor(isKnown, { what: 'the store to know who shares its bucket', deadlineMs: 60_000 });
  stop.abort();
  await following;
  assert.equal((await one.client.replication()).stores.length, 3);
  await other.off();
  await elsewhere.off();
  one.meet([one, other]);
  assert.deepEqual(one.peers.all, []);
  const { digest } = await one.client.put('precious');
  assert.equal((await one.client.stat(digest)).sizeBytes, 8);
});

test('a store is known by its host: a new address takes the place of the old one, and one’s own is none of the others', async () => {
  const peers = new Peers({ host: 'h1', key: 'k' });
  const at = (host: string, address: string, id = host) => ({ id, address, attributes: { host } });
  const unknown = peers.all;
  assert.equal(unknown, undefined);
  assert.equal(peers.set([at('h1', '127.0.0.1:1')]), true);
  assert.deepEqual(peers.all, []);
  assert.equal(peers.set([at('h1', '127.0.0.1:1'), at('h2', '127.0.0.1:2'), at('h3', '127.0.0.1:3')]), true);
  const [before, kept] = peers.all ?? [];
  assert.equal(peers.set([at('h2', '127.0.0.1:2'), at('h3', '127.0.0.1:3')]), false);
  assert.equal(peers.set([at('h2', '127.0.0.1:4'), at('h3', '127.0.0.1:3')]), true);
  assert.deepEqual(
    peers.all?.map(({ host }) => host),
    ['h2', 'h3'],
  );
  assert.notEqual(peers.all?.[0], before);
  assert.equal(peers.all?.[1], kept);
  // Another store with the address of the one before.
  assert.equal(peers.set([at('h2', '127.0.0.1:4'), at('h3', '127.0.0.1:3', 'new')]), true);
  await peers.close();
});
