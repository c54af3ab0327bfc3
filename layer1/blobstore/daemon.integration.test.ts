/** Two blob stores as they run on hosts: processes that find each other in discovery. */
import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { createMemoryRegistry } from '@flynn/discovery/memory-registry';
import { discoveryHandlers } from '@flynn/discovery/server';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { createBlobClient } from './client.ts';
import { startTestS3 } from './s3/testing-s3.ts';

const deadlineMs = 60_000;

/** Discovery, and stores as processes that are there until the test ends. */
async function setUp(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-blobs-'));
  const stop = new AbortController();
  const log = silentLogger();
  const registry = createMemoryRegistry({ log });
  const handlers = discoveryHandlers(registry, { signal: stop.signal });
  const discovery = await startServer({ name: 'discovery', handlers, host: '127.0.0.1', port: 0, log });
  const processes: ChildProcess[] = [];

  async function start(host: string, settings: Readonly<Record<string, string>> = {}) {
    const port = await freePort();
    const storage = join(dir, host);
    const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts')], {
      env: {
        FLYNN_KEY: 'k',
        FLYNN_HOST_ID: host,
        FLYNN_DISCOVERY_URL: discovery.url,
        FLYNN_STORAGE_DIR: storage,
        PORT: String(port),
        ...settings,
      },
      stdio: 'ignore',
    });
    processes.push(child);
    const address = `127.0.0.1:${port}`;
    const isUp = async () => (await fetch(`http://${address}/ping`)).ok;
    await waitFor(isUp, { what: `the blob store of ${host}`, deadlineMs });
    await registry.register({ service: 'blobstore', id: host, address, attributes: { host } });
    return { child, storage, client: createBlobClient({ baseUrl: `http://${address}`, key: 'k' }) };
  }

  t.after(async () => {
    for (const child of processes) child.kill('SIGKILL');
    const isRunning = ({ exitCode, signalCode }: ChildProcess) => (exitCode ?? signalCode) === null;
    await Promise.all(processes.filter(isRunning).map((child) => once(child, 'exit')));
    stop.abort();
    await discovery.close();
    await registry[Symbol.asyncDispose]();
    await rm(dir, { recursive: true, force: true });
  });

  /** As its host does it for the one that takes its place. */
  async function end({ child }: { child: ChildProcess }, host: string): Promise<void> {
    child.kill('SIGTERM');
    if ((child.exitCode ?? child.signalCode) === null) await once(child, 'exit');
    await registry.deregister('blobstore', host);
  }

  return { start, end, registry };
}

test('a blob outlives the process and the disk that it was sent to', async (t) => {
  const { start, registry } = await setUp(t);
  const [first, second] = [await start('h1'), await start('h2')];
  const hasMet = async () => (await first.client.replication()).stores.length === 2;
  await waitFor(hasMet, { what: 'the stores to know each other', deadlineMs });
  const { digest } = await first.client.put('precious');
  await first.client.putName('cache/a', digest);
  assert.deepEqual(await readdir(join(second.storage, 'blobs', 'sha256', digest.slice(7, 9))), [digest.slice(7)]);

  first.child.kill('SIGKILL');
  await once(first.child, 'exit');
  await rm(first.storage, { recursive: true });
  // Until discovery knows, what is stored waits for the lost one.
  const waiting = second.client.put('more');
  await registry.deregister('blobstore', 'h1');
  const more = await waiting;
  assert.equal((await second.client.getName('cache/a'))?.digest, digest);
  assert.equal(await text(await second.client.get(digest)), 'precious');

  const replaced = await start('h3');
  const isWhole = async () => {
    const held = await readdir(join(replaced.storage, 'blobs', 'sha256'), { recursive: true });
    return [digest, more.digest].every((one) => held.some((path) => path.endsWith(one.slice(7))));
  };
  await waitFor(isWhole, { what: 'the new store to fill itself', deadlineMs });
  await Promise.all([first, second, replaced].map(({ client }) => client.close()));
});

test('blobs move to a bucket as the stores are deployed one after the other, and each finds what the others have', async (t) => {
  await using s3 = await startTestS3();
  const { start, end } = await setUp(t);
  const settings = {
    BLOB_S3_URL: `s3://${s3.bucket.bucket}/flynn`,
    BLOB_S3_ENDPOINT: s3.bucket.endpoint,
    BLOB_S3_REGION: s3.bucket.region,
    AWS_ACCESS_KEY_ID: s3.credentials.accessKeyId,
    AWS_SECRET_ACCESS_KEY: s3.credentials.secretAccessKey,
  };
  const [first, second] = [await start('h1'), await start('h2')];
  const hasMet = async () => (await first.client.replication()).stores.length === 2;
  await waitFor(hasMet, { what: 'the stores to know each other', deadlineMs });
  const { digest } = await first.client.put('precious');
  await first.client.putName('cache/a', digest);

  await end(first, 'h1');
  const third = await start('h1', settings);
  const more = await third.client.put('more');
  assert.equal(await text(await second.client.get(more.digest)), 'more');
  await end(second, 'h2');
  const fourth = await start('h2', settings);
  const haveMoved = async () => {
    const { stores } = await fourth.client.replication();
    return stores.length === 2 && stores.every(({ status }) => status?.place !== undefined);
  };
  await waitFor(haveMoved, { what: 'all blobs to be in the bucket', deadlineMs });
  assert.equal((await fourth.client.getName('cache/a'))?.digest, digest);
  for (const [each, bytes] of [
    [digest, 'precious'],
    [more.digest, 'more'],
  ] as const)
    assert.equal(await text(await fourth.client.get(each)), bytes);
  await Promise.all([first, second, third, fourth].map(({ client }) => client.close()));
});
