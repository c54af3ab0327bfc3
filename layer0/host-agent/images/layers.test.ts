import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposable, readFile, readdir, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { ImageDisks, disksAt } from './disks.ts';
import { ImageRoom } from './room.ts';
import { allOrNothing, unpackLayer } from './layers.ts';

const mib = 1024 ** 2;
const roomy = { usedBytes: 0, freeBytes: 1024 ** 4 };

/** Of a host with one disk, or with another one for the engine. */
function disksOf(scratch: () => Promise<Room> | Room, engine?: () => Room): ImageDisks {
  return new ImageDisks(async () => {
    const own = { path: '/state', device: 1, ...(await scratch()) };
    return { scratch: own, engine: engine === undefined ? own : { path: '/engine', device: 2, ...engine() } };
  });
}

type Room = { usedBytes: number; freeBytes: number };

function blobOf(bytes: Buffer) {
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  return { digest, fetchBlob: async () => Readable.from([bytes], { objectMode: false }) };
}

async function inFolder(work: (dir: string) => Promise<void>): Promise<void> {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-layers-'));
  await work(folder.path);
}

test('a layer is unpacked, however it is compressed, and its blob is not kept', () =>
  inFolder(async (dir) => {
    const plain = Buffer.from('a layer');
    for (const [at, stored] of [plain, gzipSync(plain), zstdCompressSync(plain)].entries()) {
      const { digest, fetchBlob } = blobOf(stored);
      const room = new ImageRoom({ disks: disksOf(() => roomy) });
      const name = `${at}.tar`;
      assert.deepEqual(await unpackLayer(fetchBlob, digest, { dir, name, room }), {
        path: join(dir, name),
        sizeBytes: plain.length,
        diffId: blobOf(plain).digest,
      });
      assert.deepEqual(await readFile(join(dir, name)), plain);
    }
    assert.deepEqual((await readdir(dir)).sort(), ['0.tar', '1.tar', '2.tar']);
  }));

test('a layer that unpacks to more than it may ends there', () =>
  inFolder(async (dir) => {
    const { digest, fetchBlob } = blobOf(zstdCompressSync(Buffer.alloc(64 * mib)));
    const room = new ImageRoom({ disks: disksOf(() => roomy), limits: { layerBytes: 4 * mib, imageBytes: 100 * mib } });
    await assert.rejects(
      unpackLayer(fetchBlob, digest, { dir, name: 'layer.tar', room }),
      (error) => hasCode(error, 'exhausted') && /unpacked, has more than 4 MiB/.test(error.message),
    );
    assert.ok((await stat(join(dir, 'layer.tar'))).size <= 4 * mib);
  }));

test('neither is one fetched that is too large as it is stored', () =>
  inFolder(async (dir) => {
    const limits = { layerBytes: mib, imageBytes: mib };
    const endless = async () =>
      Readable.from(
        (function* () {
          for (;;) yield Buffer.alloc(mib / 4, 1);
        })(),
      );
    const room = new ImageRoom({ disks: disksOf(() => roomy), limits });
    await assert.rejects(
      unpackLayer(endless, `sha256:${'0'.repeat(64)}`, { dir, name: 'layer.tar', room }),
      (error) => hasCode(error, 'exhausted') && /has more than 1 MiB/.test(error.message),
    );
  }));

test('layers count together, as one image', () =>
  inFolder(async (dir) => {
    const { digest, fetchBlob } = blobOf(gzipSync(Buffer.alloc(3 * mib)));
    const room = new ImageRoom({ disks: disksOf(() => roomy), limits: { layerBytes: 4 * mib, imageBytes: 5 * mib } });
    await unpackLayer(fetchBlob, digest, { dir, name: '0.tar', room });
    await assert.rejects(
      unpackLayer(fetchBlob, digest, { dir, name: '1.tar', room }),
      (error) => hasCode(error, 'exhausted') && /the image, unpacked, has more than 5 MiB/.test(error.message),
    );
  }));

test('nothing is unpacked past the disk’s watermark, which counts what the engine is about to write', () =>
  inFolder(async (dir) => {
    const { digest, fetchBlob } = blobOf(zstdCompressSync(Buffer.alloc(120 * mib)));
    const usedBytes = 840 * mib;
    const onDisk = async () => {
      const size = await stat(join(dir, 'layer.tar')).then(
        (file) => file.size,
        () => 0,
      );
      return { usedBytes: usedBytes + size, freeBytes: 160 * mib - size };
    };
    const room = new ImageRoom({ disks: disksOf(onDisk) });
    await assert.rejects(
      unpackLayer(fetchBlob, digest, { dir, name: 'layer.tar', room }),
      (error) => hasCode(error, 'exhausted') && /no room for the image/.test(error.message),
    );
    // 95 % are 110 MiB more: half of them for the engine. It is looked at every 64 MiB.
    assert.ok((await stat(join(dir, 'layer.tar'))).size <= 65 * mib);
    let isFetched = false;
    const fetching = async () => {
      isFetched = true;
      return Readable.from([]);
    };
    const full = new ImageRoom({ disks: disksOf(() => ({ usedBytes: 96, freeBytes: 4 })) });
    await assert.rejects(unpackLayer(fetching, digest, { dir, name: '1.tar', room: full }), /96 % of it/);
    assert.equal(isFetched, false);
  }));

test('images that come at once count together until the engine has them, and an image counts with what is there of it', () =>
  inFolder(async (dir) => {
    const { digest, fetchBlob } = blobOf(zstdCompressSync(Buffer.alloc(30 * mib)));
    const disks = disksOf(() => ({ usedBytes: 40 * mib, freeBytes: 60 * mib }));
    const first = new ImageRoom({ disks });
    await unpackLayer(fetchBlob, digest, { dir, name: '0.tar', room: first });
    {
      using second = new ImageRoom({ disks });
      await unpackLayer(fetchBlob, digest, { dir, name: '1.tar', room: second });
      for (const room of [first, second]) {
        await assert.rejects(room.look(), (error) => hasCode(error, 'exhausted') && /100 % of it/.test(error.message));
      }
    }
    await first.look();
    first[Symbol.dispose]();
    using again = new ImageRoom({ disks });
    again.expect(50 * mib);
    await again.look();
    const limits = { layerBytes: 40 * mib, imageBytes: 50 * mib };
    using large = new ImageRoom({ disks, presentBytes: 25 * mib, limits });
    await assert.rejects(
      unpackLayer(fetchBlob, digest, { dir, name: '2.tar', room: large }),
      /the image, unpacked, has more than 50 MiB/,
    );
  }));

test('where the engine has a disk of its own, what it is about to have counts on that, and on that alone', async () => {
  const full = { usedBytes: 90 * mib, freeBytes: 10 * mib };
  const half = { usedBytes: 50 * mib, freeBytes: 50 * mib };
  const roomOf = (scratch: Room, engine: Room) =>
    new ImageRoom({
      disks: disksOf(
        () => scratch,
        () => engine,
      ),
    });
  const free = roomOf(full, half);
  free.expect(40 * mib);
  await free.look();
  free.expect(6 * mib);
  await assert.rejects(free.look(), /\(\/engine\) has no room/);
  const short = roomOf(half, full);
  await short.look();
  short.expect(6 * mib);
  await assert.rejects(short.look(), (error) => hasCode(error, 'exhausted') && /96 % of it/.test(error.message));
  await assert.rejects(roomOf({ usedBytes: 96, freeBytes: 4 }, half).look(), /\(\/state\) has no room/);
});

test('the disks are told apart by their devices; an engine whose directory is not here has that of the layers', () =>
  inFolder(async (dir) => {
    for (const engineDir of [undefined, join(dir, 'none'), dir]) {
      const { scratch, engine } = await disksAt(dir, async () => engineDir)();
      assert.deepEqual([engine.device, engine.path], [scratch.device, dir]);
      assert.ok(scratch.usedBytes > 0);
    }
    const { scratch, engine } = await disksAt(dir, async () => '/dev/shm')();
    assert.notEqual(engine.device, scratch.device);
  }));

test('one that nobody wants any more ends at once', () =>
  inFolder(async (dir) => {
    const leaving = new AbortController();
    const begun = Promise.withResolvers<void>();
    const slow = async () =>
      Readable.from(
        (async function* () {
          for (;;) {
            yield Buffer.alloc(1024);
            begun.resolve();
            await new Promise(setImmediate);
          }
        })(),
      );
    const room = new ImageRoom({ disks: disksOf(() => roomy) });
    const unpacking = unpackLayer(slow, `sha256:${'0'.repeat(64)}`, {
      dir,
      name: 'layer.tar',
      room,
      signal: leaving.signal,
    });
    await begun.promise;
    leaving.abort();
    await assert.rejects(unpacking, { name: 'AbortError' });
  }));

test('of several parts the first failure ends the others, and is what is told', async () => {
  let isEnded = false;
  const waiting = async (signal: AbortSignal): Promise<void> => {
    try {
      if (!signal.aborted) await once(signal, 'abort');
      signal.throwIfAborted();
    } finally {
      await new Promise(setImmediate);
      isEnded = true;
    }
  };
  const failing = () => Promise.reject(new FlynnError('invalid', 'damaged'));
  await assert.rejects(allOrNothing([waiting, failing], {}), /damaged/);
  assert.equal(isEnded, true);
  const signal = AbortSignal.abort();
  await assert.rejects(allOrNothing([waiting], { signal }), (error) => hasCode(error, 'cancelled'));
});
