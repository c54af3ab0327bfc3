import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { gunzipSync, gzipSync, zstdDecompressSync } from 'node:zlib';
import { pack } from 'tar-stream';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { Archive } from './archive.ts';
import { readArchivedImage } from './archived-image.ts';
import { resultOf } from './image-result.ts';
import { type BlobTarget, storeImage } from './stored-image.ts';
import { configOf, digestOf, layoutFiles, savedFiles, tarOf } from './testing.ts';

const { signal } = new AbortController();

async function withFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-image-'));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function target(): BlobTarget & { blobs: Map<string, Buffer> } {
  const blobs = new Map<string, Buffer>();
  return {
    blobs,
    stat(digest) {
      const found = blobs.get(digest);
      if (found === undefined) return Promise.reject(new FlynnError('not_found', `no ${digest}`));
      return Promise.resolve({ digest, sizeBytes: found.length });
    },
    async put(body, { digest }) {
      const bytes = await buffer(body);
      assert.equal(digestOf(bytes), digest);
      blobs.set(digest, bytes);
      return { digest, sizeBytes: bytes.length };
    },
  };
}

/** Reads an archive and stores what is in it. */
async function push(archive: Buffer, to = target()) {
  return withFolder(async (folder) => {
    const image = await readArchivedImage(
      await Archive.unpack(Readable.from([archive], { objectMode: false }), folder, signal),
      'x64',
    );
    const sent: boolean[] = [];
    const stored = await storeImage(image, to, { signal, onLayer: ({ isSent }) => sent.push(isSent) });
    return { image, stored, sent, blobs: to.blobs };
  });
}

const isInvalid = (pattern: RegExp) => (error: unknown) => hasCode(error, 'invalid') && pattern.test(error.message);

const layerA = await tarOf({ 'a.txt': 'a' });
const layerB = await tarOf({ 'b.txt': 'b'.repeat(10_000) });

test('what an engine saved is stored as a configuration and compressed layers, once', async () => {
  const archive = await tarOf(savedFiles([layerA, layerB]));
  const first = await push(archive);
  assert.equal(first.image.name, 'shop:latest');
  assert.deepEqual(first.sent, [true, true]);
  assert.equal(first.blobs.size, 3);
  const [a, b] = first.stored.layers;
  assert.deepEqual(zstdDecompressSync(first.blobs.get(a?.digest ?? '') ?? ''), layerA);
  assert.deepEqual(zstdDecompressSync(first.blobs.get(b?.digest ?? '') ?? ''), layerB);
  const again = await push(archive, {
    ...target(),
    ...first,
    stat: (digest) => Promise.resolve({ digest, sizeBytes: 1 }),
  });
  assert.deepEqual(again.sent, [false, false]);
  assert.deepEqual(again.stored, first.stored);
});

/** Of an archive that is packed within a limit, what is on the disk in the end. */
async function packWithin(archive: Buffer, bytes: number) {
  return withFolder(async (folder) => {
    const input = Readable.from([archive], { objectMode: false });
    const image = await readArchivedImage(await Archive.unpack(input, folder, signal), 'x64');
    const to = target();
    const limit = { bytes, error: () => new FlynnError('exhausted', 'too large') };
    const [outcome] = await Promise.allSettled([storeImage(image, to, { signal, limit })]);
    const names = (await readdir(folder)).filter((name) => name.endsWith('.zst'));
    const packed = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
    return { outcome, blobs: to.blobs, packedBytes: packed.reduce((sum, size) => sum + size, 0) };
  });
}

test('within a limit no more is packed beside the archive than it allows, of one layer either, and nothing is sent', async () => {
  const large = await tarOf({ 'large.bin': randomBytes(4 * 1024 ** 2) });
  const limit = 1024 ** 2;
  const { outcome, blobs, packedBytes } = await packWithin(await tarOf(savedFiles([layerA, large])), limit);
  assert.ok(outcome?.status === 'rejected' && hasCode(outcome.reason, 'exhausted'));
  assert.equal(blobs.size, 0);
  assert.ok(packedBytes <= limit, `${packedBytes} bytes`);
  const zipped = await packWithin(await tarOf(layoutFiles([gzipSync(large)])), limit);
  assert.ok(zipped.outcome?.status === 'rejected' && hasCode(zipped.outcome.reason, 'exhausted'));
});

test('within a limit two layers that are one file in the archive are stored', async () => {
  const files = savedFiles([layerA, layerA]);
  const [image] = JSON.parse(String(files['manifest.json'])) as [object];
  const same = { ...image, Layers: ['0/layer.tar', '0/layer.tar'] };
  const archive = await tarOf({ ...files, '1/layer.tar': undefined, 'manifest.json': JSON.stringify([same]) });
  const { outcome, packedBytes } = await packWithin(archive, 1024 ** 2);
  assert.ok(outcome?.status === 'fulfilled', String(outcome?.status === 'rejected' ? outcome.reason : ''));
  assert.equal(packedBytes, 0);
});

test('a layer is sent for as long as it gets on, and anew when it does not, until nothing more has come for half an hour', async (t) => {
  const minuteMs = 60_000;
  let nowMs = performance.now();
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.method(performance, 'now', () => nowMs);
  const archive = await tarOf(layoutFiles([gzipSync(await tarOf({ 'a.bin': randomBytes(1024 ** 2) }))]));
  const pass = (ms: number) => {
    nowMs += ms;
    t.mock.timers.tick(ms);
  };
  const slow = (stopsAfter: readonly number[]) => {
    const plain = target();
    let attempts = 0;
    const to: BlobTarget = {
      ...plain,
      async put(body, options) {
        if (plain.blobs.size > 0) return plain.put(body, options);
        const stopAfter = stopsAfter[attempts] ?? Infinity;
        attempts += 1;
        assert.ok(options.timeoutMs > 60 * minuteMs);
        const chunks: Buffer[] = [];
        for await (const chunk of body) {
          chunks.push(chunk);
          if (chunks.length >= stopAfter) break;
          pass(9 * minuteMs);
          assert.ok(!options.signal.aborted);
        }
        if (chunks.length < stopAfter) return plain.put(Readable.from(chunks, { objectMode: false }), options);
        pass(10 * minuteMs);
        assert.ok(options.signal.aborted);
        setImmediate(() => pass(2_000));
        throw options.signal.reason;
      },
    };
    return { to, attempts: () => attempts };
  };
  const stopping = slow([3, 1]);
  await withFolder(async (folder) => {
    const input = Readable.from([archive], { objectMode: false });
    const image = await readArchivedImage(await Archive.unpack(input, folder, signal), 'x64');
    const stored = await storeImage(image, stopping.to, { signal });
    assert.equal(stored.layers.length, 1);
    assert.equal(stopping.attempts(), 3);
    const hopeless = slow(Array.from({ length: 20 }, () => 2));
    await assert.rejects(storeImage(image, hopeless.to, { signal }), (error) => hasCode(error, 'timeout'));
    assert.ok(hopeless.attempts() <= 4, `${hopeless.attempts()} attempts`);
  });
});

test('an OCI layout is the same image; its compressed layers stay as they are', async () => {
  const zipped = gzipSync(layerB);
  const { image, stored, blobs } = await push(gzipSync(await tarOf(layoutFiles([layerA, zipped]))));
  assert.equal(image.name, 'shop:2');
  assert.equal(stored.layers[1]?.digest, digestOf(zipped));
  assert.deepEqual(gunzipSync(blobs.get(digestOf(zipped)) ?? ''), layerB);
});

test('of a layout for several platforms the own one is taken', async () => {
  const files = layoutFiles([layerA]);
  const index = JSON.parse(String(files['index.json'])) as { manifests: { digest: string }[] };
  const own = { ...index.manifests[0], platform: { os: 'linux', architecture: 'amd64' } };
  const other = { digest: digestOf(Buffer.from('x')), platform: { os: 'linux', architecture: 's390x' } };
  const both = await push(await tarOf({ ...files, 'index.json': JSON.stringify({ manifests: [other, own] }) }));
  assert.equal(both.stored.layers.length, 1);
  const foreign = tarOf({ ...files, 'index.json': JSON.stringify({ manifests: [other] }) });
  await assert.rejects(push(await foreign), isInvalid(/no image for linux\/amd64, it has linux\/s390x/));
});

test('a layer that an engine saved as a link to another is found', async () => {
  const files = savedFiles([layerA, layerA]);
  const archive = pack();
  for (const [name, content] of Object.entries(files)) {
    if (name === '1/layer.tar') archive.entry({ name, type: 'symlink', linkname: '../0/layer.tar' });
    else if (content !== undefined) archive.entry({ name }, content);
  }
  archive.finalize();
  const { stored } = await push(await buffer(archive));
  assert.deepEqual(stored.layers[0], stored.layers[1]);
});

test('archives that are none, cut off, damaged or hold no Linux image are refused with the reason', async () => {
  const whole = await tarOf(savedFiles([layerA, layerB]));
  const refused: [string, Buffer, RegExp][] = [
    ['nothing', Buffer.alloc(0), /no archive of an image/],
    ['text', Buffer.from('this is no archive at all, is it?'.repeat(40)), /no archive of an image/],
    ['cut off', whole.subarray(0, whole.length - 12_000), /cut off|lacks the file/],
    ['cut off while compressed', gzipSync(whole).subarray(0, 200), /cut off/],
    ['another tar', await tarOf({ 'readme.md': 'hello' }), /neither "docker save".*nor an OCI layout/],
    ['bad JSON', await tarOf({ 'manifest.json': '{' }), /manifest\.json is no JSON/],
    ['no layers', await tarOf({ 'manifest.json': JSON.stringify([{ Config: 'c' }]) }), /not as it should be/],
    ['no image', await tarOf({ 'manifest.json': '[]' }), /no image in the archive/],
    [
      'a layer missing',
      await tarOf({ ...savedFiles([layerA]), '0/layer.tar': undefined }),
      /lacks the file 0\/layer\.tar/,
    ],
    [
      'another layer',
      await tarOf({ ...savedFiles([layerA]), '0/layer.tar': layerB }),
      /the image is damaged: its layer/,
    ],
    [
      'one layer too few',
      await tarOf({ ...savedFiles([layerA]), 'config.json': configOf([layerA, layerB]) }),
      /names 2 layers, and the archive 1/,
    ],
    [
      'Windows',
      await tarOf({ ...savedFiles([layerA]), 'config.json': configOf([layerA], { os: 'windows' }) }),
      /made for windows/,
    ],
    [
      'damaged compression',
      await tarOf(layoutFiles([gzipSync(layerB).subarray(0, 40)], [layerB])),
      /cannot be decompressed/,
    ],
  ];
  for (const [what, archive, pattern] of refused) await assert.rejects(push(archive), isInvalid(pattern), what);
});

test('several images in one archive are told apart by whoever saved them', async () => {
  const files = savedFiles([layerA]);
  const [image] = JSON.parse(String(files['manifest.json'])) as unknown[];
  const two = { ...files, 'manifest.json': JSON.stringify([image, image]) };
  await assert.rejects(
    push(await tarOf(two)),
    isInvalid(/2 images in the archive \(shop:latest, shop:latest\): save one alone/),
  );
});

test('an OCI manifest or configuration that is not what its digest says is refused', async () => {
  const files = layoutFiles([layerA]);
  for (const [name, content] of Object.entries(files)) {
    if (!name.startsWith('blobs/') || content === layerA) continue;
    const damaged = { ...files, [name]: `${String(content)} ` };
    await assert.rejects(push(await tarOf(damaged)), isInvalid(/the archive is damaged/));
  }
});

test('names that lead out of the archive lead nowhere', async () => {
  await withFolder(async (folder) => {
    const inside = join(folder, 'inside');
    await mkdir(inside);
    const evil = pack();
    evil.entry({ name: '../escaped' }, 'x');
    evil.entry({ name: '/etc/flynn-escaped' }, 'x');
    evil.entry({ name: 'passwd', type: 'symlink', linkname: '/etc/passwd' });
    const manifest = [{ Config: 'passwd', RepoTags: null, Layers: ['../../../../etc/passwd'] }];
    evil.entry({ name: 'manifest.json' }, JSON.stringify(manifest));
    evil.finalize();
    const archive = await Archive.unpack(Readable.from([await buffer(evil)], { objectMode: false }), inside, signal);
    await assert.rejects(readArchivedImage(archive), isInvalid(/lacks the file passwd/));
    assert.deepEqual(await readdir(folder), ['inside']);
  });
});

test('the port is the one the image exposes, and nothing is started that says nothing', async () => {
  const portOf = async (config: object, lines: Record<string, string> = {}) => {
    const files = { ...savedFiles([layerA]), 'config.json': configOf([layerA], {}, config) };
    const { image, stored } = await push(await tarOf(files));
    return resultOf(image, stored, lines).image;
  };
  const Cmd = ['/serve'];
  assert.equal((await portOf({ Cmd }))?.port, undefined);
  assert.equal((await portOf({ Cmd, ExposedPorts: { '9229/tcp': {}, '3000/tcp': {}, '53/udp': {} } }))?.port, 3000);
  assert.equal((await portOf({ Cmd, Env: ['PORT=9229'], ExposedPorts: { '9229/tcp': {}, '80': {} } }))?.port, 9229);
  assert.equal((await portOf({ Cmd, Env: ['PORT=5000'] }))?.port, 5000);
  assert.equal((await portOf({ Cmd, Env: ['PORT=5000'], ExposedPorts: { '80/tcp': {} } }))?.port, 80);
  assert.equal((await portOf({ Cmd: null, Entrypoint: ['/x'] }))?.hasCommand, true);
  await assert.rejects(portOf({ Cmd: null }), isInvalid(/neither ENTRYPOINT nor CMD/));
  assert.equal((await portOf({}, { worker: 'work' }))?.hasCommand, false);
});
