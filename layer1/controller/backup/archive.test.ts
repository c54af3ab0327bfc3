/** Whatever is not to the byte what was written is refused, and what was written is read. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { packArchive, readArchive } from './archive.ts';
import { formatVersion } from './manifest.ts';
import type { Manifest, Part } from './manifest.ts';

const bodies = new Map([
  ['records/app.ndjson', Buffer.from('{"key":"a"}\n')],
  ['records/none.ndjson', Buffer.alloc(0)],
  ['blobs/sha256/aa', Buffer.alloc(300_000, 'x')],
]);

function partOf([name, body]: [string, Buffer]): Part {
  return { name, sizeBytes: body.length, sha256: createHash('sha256').update(body).digest('hex') };
}

function manifestWith(more: Partial<Manifest> = {}): Manifest {
  const cluster = { id: 'c', name: 'test', domain: 'example.com' };
  const parts = [...bodies].map(partOf);
  const madeAt = '2026-11-21T12:00:00.000Z';
  return { format: formatVersion, platformVersion: '0', madeAt, cluster, revision: 7, missing: [], parts, ...more };
}

async function* open({ name }: Part): AsyncGenerator<Uint8Array> {
  const body = bodies.get(name) ?? Buffer.alloc(0);
  for (let at = 0; at < body.length; at += 65_536) yield body.subarray(at, at + 65_536);
}

const packed = (manifest = manifestWith()): Promise<Buffer> => buffer(packArchive(manifest, open));
const ignore = async (): Promise<void> => {};

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

const isInvalid = (error: unknown): boolean => hasCode(error, 'invalid');

test('what was packed is read back, in its order, however it arrives', async () => {
  const archive = await packed();
  for (const size of [archive.length, 4_096, 700]) {
    const found: [string, Buffer][] = [];
    const { manifest, digest } = await readArchive(inPieces(archive, size), async ({ name }, body) => {
      found.push([name, await buffer(body)]);
    });
    assert.deepEqual(found, [...bodies]);
    assert.deepEqual(manifest, manifestWith());
    assert.match(digest, /^[0-9a-f]{64}$/);
  }
});

test('one that was cut is refused, wherever', async () => {
  const archive = await packed();
  for (const share of [0, 0.001, 0.01, 0.5, 0.99]) {
    const cut = archive.subarray(0, Math.floor(archive.length * share));
    await assert.rejects(readArchive(inPieces(cut, 10_000), ignore), isInvalid, `${share}`);
  }
  // All parts are there, and the seal is not: what was cut at the end of an entry is a well-formed archive.
  const unsealed = archive.subarray(0, archive.length - 2_048);
  await assert.rejects(readArchive(inPieces(unsealed, 10_000), ignore), /cut: 3 of its 3 parts are there/);
});

test('a byte that was changed is found, in the manifest, in a part and in the seal', async () => {
  const archive = await packed();
  for (const text of ['"revision"', '{"key":"a"}', 'xxxx', 'example.com', 'SHA256']) {
    const at = archive.indexOf(text);
    assert.ok(at > 0, text);
    const changed = Buffer.from(archive);
    changed[at + 1] = (changed[at + 1] ?? 0) ^ 1;
    await assert.rejects(readArchive(inPieces(changed, 10_000), ignore), isInvalid, text);
  }
});

test('what is no backup, and what is one of a later flynn, is told as such', async () => {
  await assert.rejects(readArchive(inPieces(Buffer.from('hello'), 10), ignore), isInvalid);
  await assert.rejects(readArchive(inPieces(Buffer.alloc(0), 10), ignore), isInvalid);
  await assert.rejects(readArchive(inPieces(Buffer.alloc(10_240), 512), ignore), isInvalid);
  const later = await packed(manifestWith({ format: formatVersion + 1, platformVersion: '9.9' }));
  await assert.rejects(readArchive(inPieces(later, 10_000), ignore), /format 2 and was made by flynn 9\.9/);
});

test('a part that is not what was announced fails the archive, which has no seal then', async () => {
  const [first] = manifestWith().parts;
  assert.ok(first !== undefined);
  const wrong = manifestWith({ parts: [{ ...first, sha256: '0'.repeat(64) }] });
  await assert.rejects(packed(wrong), /records\/app\.ndjson is not what the manifest says/);
  const cut = packArchive(manifestWith(), async function* () {
    yield Buffer.from('{"k');
    throw new FlynnError('unavailable', 'the blob store went away');
  });
  await assert.rejects(buffer(cut), /went away/);
});

test('what the visitor and the source fail with is what the reader fails with', async () => {
  const archive = await packed();
  const full = async (): Promise<void> => {
    throw new FlynnError('exhausted', 'the disk is full');
  };
  await assert.rejects(readArchive(inPieces(archive, 1_000), full), /the disk is full/);
  const source = async function* (): AsyncGenerator<Uint8Array> {
    yield archive.subarray(0, 5_000);
    throw new FlynnError('unavailable', 'the network is gone');
  };
  await assert.rejects(readArchive(source(), ignore), /the network is gone/);
});

test('a reader that leaves ends what is being read', async () => {
  let isEnded = false;
  const archive = packArchive(manifestWith(), async function* (part) {
    try {
      for await (const chunk of open(part)) yield chunk;
    } finally {
      if (part.name.startsWith('blobs/')) isEnded = true;
    }
  });
  let sizeBytes = 0;
  for await (const chunk of archive) {
    assert.ok(chunk instanceof Buffer);
    sizeBytes += chunk.length;
    if (sizeBytes > 100_000) break;
  }
  await waitFor(async () => isEnded, { what: 'the end of what was read', deadlineMs: 60_000, intervalMs: 5 });
});
