import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtemp, rm, utimes, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { createBlobClient } from './client.ts';
import { openFilesystem } from './filesystem.ts';
import { blobHandlers } from './server.ts';

async function setUp(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-blobs-'));
  const storage = await openFilesystem(dir, { nowMs: Date.now() });
  const server = await startServer({
    name: 'blobstore',
    handlers: blobHandlers(storage),
    key: 'k',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
  });
  const client = createBlobClient({ baseUrl: server.url, key: 'k' });
  t.after(async () => {
    await client.close();
    await server.close();
    await rm(dir, { recursive: true });
  });
  return { dir, server, client };
}

test('a blob of 20 MB streamed in comes out the same', async (t) => {
  const { client, server } = await setUp(t);
  const data = randomBytes(20 * 1024 * 1024);
  const blob = await client.put(Readable.from([data.subarray(0, 9_000_000), data.subarray(9_000_000)]));
  assert.equal(blob.sizeBytes, data.length);
  assert.deepEqual(await client.stat(blob.digest), blob);
  assert.ok(data.equals(await buffer(await client.get(blob.digest))));
  const head = await fetch(`${server.url}/blobs/${blob.digest}`, { headers: { authorization: 'Bearer k' } });
  assert.equal(head.headers.get('content-length'), String(data.length));
  await head.body?.cancel();
});

test('a download that is cut again and again comes out the same, and goes on where it was', async (t) => {
  const data = randomBytes(10_000_000);
  const digest = `sha256:${createHash('sha256').update(data).digest('hex')}`;
  const asked: number[] = [];
  const cutting = createServer((request, response) => {
    const from = Number(new URL(request.url ?? '', 'http://x').searchParams.get('from') ?? 0);
    const isFirstTry = asked.at(-1) !== from;
    asked.push(from);
    // Every other time before there is an answer.
    if (from > 0 && isFirstTry) return void request.socket.destroy();
    response.writeHead(200, { 'content-length': data.length - from });
    const to = Math.min(data.length, from + data.length / 10);
    return void response.write(data.subarray(from, to), () => request.socket.destroySoon());
  });
  await once(cutting.listen(0, '127.0.0.1'), 'listening');
  const address = cutting.address();
  assert.ok(address !== null && typeof address === 'object');
  const client = createBlobClient({ baseUrl: `http://127.0.0.1:${address.port}`, key: 'k' });
  t.after(async () => {
    await client.close();
    cutting.close();
  });
  assert.ok(data.equals(await buffer(await client.get(digest))));
  // Ten parts, and nine refusals between them; what was underway at a cut may be asked for again.
  assert.ok(asked.length >= 19, asked.join());
  assert.deepEqual(
    asked,
    asked.toSorted((a, b) => a - b),
  );
});

test('a blob is sent from any byte on, and not from beyond its end', async (t) => {
  const { client, server } = await setUp(t);
  const { digest } = await client.put('precious');
  const ask = (from: number) =>
    fetch(`${server.url}/blobs/${digest}?from=${from}`, { headers: { authorization: 'Bearer k' } });
  const part = await ask(3);
  assert.equal(part.headers.get('content-length'), '5');
  assert.equal(await part.text(), 'cious');
  assert.equal(await (await ask(8)).text(), '');
  const beyond = await ask(9);
  assert.equal(beyond.status, 400);
  assert.match(await beyond.text(), /has 8 bytes: none is after 9/);
});

test('a blob damaged on disk is not taken for the real one', async (t) => {
  const { client, dir } = await setUp(t);
  const { digest } = await client.put('precious');
  const hex = digest.slice('sha256:'.length);
  await writeFile(join(dir, 'blobs', 'sha256', hex.slice(0, 2), hex), 'precioux');
  await assert.rejects(async () => buffer(await client.get(digest)), /is damaged/);
  await client.put('precious');
  assert.equal((await buffer(await client.get(digest))).toString(), 'precious');
});

test('names go through the client, one that is not there is undefined', async (t) => {
  const { client } = await setUp(t);
  const blob = await client.put('x');
  assert.equal(await client.getName('builds/1'), undefined);
  await client.putName('builds/1', blob.digest);
  assert.deepEqual(await client.getName('builds/1'), blob);
  await client.removeName('builds/1');
  assert.equal(await client.getName('builds/1'), undefined);
});

test('refusals come back with their code', async (t) => {
  const { client, server } = await setUp(t);
  const other = `sha256:${'0'.repeat(64)}`;
  await assert.rejects(client.get(other), (e) => hasCode(e, 'not_found'));
  await assert.rejects(client.put('x', { digest: other }), (e) => hasCode(e, 'invalid'));
  await assert.rejects(client.stat('sha256:zz'), (e) => hasCode(e, 'invalid'));
  await client.remove(other);
  const climbing = await fetch(`${server.url}/names/a/..%2f..%2fb`, { headers: { authorization: 'Bearer k' } });
  assert.equal(climbing.status, 400);
  const stranger = await fetch(`${server.url}/blobs/${other}`);
  assert.equal(stranger.status, 401);
});

test('blobs and names are listed page by page, with when they were used', async (t) => {
  const { client, server } = await setUp(t);
  const blobs = await Promise.all(['a', 'b', 'c'].map((text) => client.put(text)));
  const [first] = blobs;
  await client.putName('builds/one', first?.digest ?? '');
  await client.putName('layers/two', first?.digest ?? '');
  const listed = await Array.fromAsync(client.list());
  assert.deepEqual(
    listed.map(({ digest, sizeBytes }) => ({ digest, sizeBytes })),
    blobs.toSorted((a, b) => (a.digest < b.digest ? -1 : 1)),
  );
  assert.ok(listed.every(({ usedAt }) => Math.abs(usedAt - Date.now()) < 60_000));
  assert.deepEqual(
    (await Array.fromAsync(client.listNames())).map(({ name }) => name),
    ['builds/one', 'layers/two'],
  );
  const page = await fetch(`${server.url}/blobs?limit=1&after=${listed[0]?.digest ?? ''}`, {
    headers: { authorization: 'Bearer k' },
  });
  assert.deepEqual(await page.json(), [listed[1]]);
});

test('a blob that was asked after since is not removed, and one that was not is', async (t) => {
  const { client, dir } = await setUp(t);
  const { digest } = await client.put('old');
  const hex = digest.slice('sha256:'.length);
  const path = join(dir, 'blobs', 'sha256', hex.slice(0, 2), hex);
  const longAgo = new Date(Date.now() - 3_600_000);
  await utimes(path, longAgo, longAgo);
  const unusedSince = Date.now() - 1_800_000;
  await client.stat(digest);
  await assert.rejects(client.remove(digest, { unusedSince }), (error) => hasCode(error, 'conflict'));
  await utimes(path, longAgo, longAgo);
  await client.put('old');
  await assert.rejects(client.remove(digest, { unusedSince }), (error) => hasCode(error, 'conflict'));
  await utimes(path, longAgo, longAgo);
  await client.remove(digest, { unusedSince });
  await client.remove(digest, { unusedSince });
  await assert.rejects(client.stat(digest), (error) => hasCode(error, 'not_found'));
});
