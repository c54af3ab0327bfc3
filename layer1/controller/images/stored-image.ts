/** Puts an image's configuration and layers where hosts fetch them from: only what is not there yet. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { Readable, Transform, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import type { Blob } from '@flynn/blobstore/api';
import { decompressorOf, headOfFile, toZstd } from '@flynn/kit/compression';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { Furthest } from '@flynn/kit/furthest';
import { retry } from '@flynn/kit/retry';
import { Stall } from '@flynn/kit/stall';
import type { ArchivedImage } from './archived-image.ts';

/** The blob store, or what leads to it. */
export type BlobTarget = {
  /** `not_found` for one that is not there. */
  stat(digest: string, options: { signal: AbortSignal }): Promise<Blob>;
  /** `timeoutMs`: of all of it. */
  put(body: Readable, options: { digest: string; signal: AbortSignal; timeoutMs: number }): Promise<Blob>;
};

export type StoredImage = { config: Blob; layers: Blob[] };
export type Sent = { sizeBytes: number; isSent: boolean };

/** Of all layers together, each of which may take as long as it gets on. Less than what nothing refers to yet is kept for. */
const uploadDeadlineMs = 12 * 3_600_000;
/** A store that takes nothing more of a blob for so long is not waited for any more. */
const fruitlessMs = 30 * 60_000;
/** The same everywhere: equal layers are equal blobs. */
const compressionLevel = 3;

export type StoreOptions = {
  signal: AbortSignal;
  onLayer?: (sent: Sent) => void;
  /** What layers are stored as, by the digests of their plain tar files: by who can be believed. */
  known?: ReadonlyMap<string, Blob>;
  /** Of a larger one nothing is stored. */
  limit?: { bytes: number; error: () => FlynnError };
};

/**
 * Layers that are plain in the archive are compressed beside it: one at a time, or, where there is a limit, all that may be,
 * before the first is sent. `invalid` when a layer is not what the image's configuration says; what was stored until then is
 * used again by the next attempt.
 */
export async function storeImage(
  image: ArchivedImage,
  target: BlobTarget,
  options: StoreOptions,
): Promise<StoredImage> {
  const { signal, onLayer, limit } = options;
  const layers: Blob[] = [];
  const untilMs = performance.now() + uploadDeadlineMs;
  const packing = packLayers(image, target, options);
  for await (const { blob, file } of limit === undefined ? packing : await Array.fromAsync(packing)) {
    const isSent =
      file !== undefined &&
      (await storeBlob({ digest: blob.digest, open: () => createReadStream(file.path) }, target, { signal, untilMs }));
    // Of two layers that are the same file it is gone already.
    if (file?.isOwn === true) await rm(file.path, { force: true });
    onLayer?.({ sizeBytes: blob.sizeBytes, isSent });
    layers.push(blob);
  }
  return { config: await storeText(image.configText, target, signal), layers };
}

/** Without a file it is stored already. */
type PackedLayer = { blob: Blob; file?: { path: string; isOwn: boolean } };

async function* packLayers(
  image: ArchivedImage,
  target: BlobTarget,
  { signal, known, limit }: StoreOptions,
): AsyncGenerator<PackedLayer, void, undefined> {
  let left = limit?.bytes ?? Infinity;
  const taken = (layer: PackedLayer): PackedLayer => {
    left -= layer.blob.sizeBytes;
    if (limit !== undefined && left < 0) throw limit.error();
    return layer;
  };
  for (const { file, diffId } of image.layers) {
    const before = known?.get(diffId);
    if (before !== undefined && (await isStored(before.digest, target, signal))) {
      yield taken({ blob: before });
      continue;
    }
    const most = limit === undefined ? undefined : { bytes: left, error: limit.error };
    const { path, digest } = await compressedLayer(file.path, diffId, { signal, most });
    yield taken({ blob: { digest, sizeBytes: (await stat(path)).size }, file: { path, isOwn: path !== file.path } });
  }
}

export async function storeText(text: string, target: BlobTarget, signal: AbortSignal): Promise<Blob> {
  const bytes = Buffer.from(text);
  const digest = `sha256:${createHash('sha256').update(bytes).digest('hex')}`;
  await storeBlob({ digest, open: () => Readable.from([bytes], { objectMode: false }) }, target, { signal });
  return { digest, sizeBytes: bytes.length };
}

async function compressedLayer(
  path: string,
  diffId: string,
  { signal, most }: { signal: AbortSignal; most: StoreOptions['limit'] },
): Promise<{ path: string; digest: string }> {
  const decompressor = decompressorOf(await headOfFile(path));
  // What is compressed already is read and not written.
  const outer = hashing(decompressor === undefined ? most : undefined);
  const inner = hashing();
  const to = `${path}.zst`;
  try {
    if (decompressor === undefined) {
      const compressor = toZstd(compressionLevel);
      await pipeline(createReadStream(path), inner.tap, compressor, outer.tap, createWriteStream(to), { signal });
    } else {
      const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() });
      await pipeline(createReadStream(path), outer.tap, decompressor, inner.tap, nowhere, { signal });
    }
  } catch (error) {
    signal.throwIfAborted();
    if (decompressor === undefined) throw error;
    throw new FlynnError('invalid', `the layer ${diffId} of the image cannot be decompressed: it is damaged`, {
      cause: error,
    });
  }
  const actual = inner.digest();
  if (actual !== diffId) {
    throw new FlynnError('invalid', `the image is damaged: its layer ${diffId} is ${actual} in the archive`);
  }
  return { path: decompressor === undefined ? to : path, digest: outer.digest() };
}

/** More than `most` of them are an error: no more than that is written to the disk. */
function hashing(most?: StoreOptions['limit']): { tap: Transform; digest: () => string } {
  const hash = createHash('sha256');
  let bytes = 0;
  const tap = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.length;
      if (most !== undefined && bytes > most.bytes) return done(most.error());
      hash.update(chunk);
      done(null, chunk);
    },
  });
  return { tap, digest: () => `sha256:${hash.digest('hex')}` };
}

/** Whether it had to be sent. */
async function storeBlob(
  blob: { digest: string; open: () => Readable },
  target: BlobTarget,
  { signal, untilMs }: { signal: AbortSignal; untilMs?: number },
): Promise<boolean> {
  const { digest, open } = blob;
  const furthest = new Furthest();
  const store = async (limited: AbortSignal): Promise<boolean> => {
    if (await isStored(digest, target, limited)) return false;
    using stall = new Stall({ what: `sending ${digest}`, signal: limited });
    const body = Readable.from(stall.watched(furthest.noting(onceRead(open))), { objectMode: false });
    await target.put(body, { digest, signal: stall.signal, timeoutMs: uploadDeadlineMs });
    return true;
  };
  return retry(store, {
    what: 'sending the image',
    deadlineMs: untilMs === undefined ? uploadDeadlineMs : untilMs - performance.now(),
    signal,
    isRetryable: (error) => hasCode(error, 'unavailable', 'timeout') && furthest.fruitlessMs < fruitlessMs,
  });
}

/** What nobody reads is not opened: nobody would close it. */
async function* onceRead(open: () => Readable): AsyncGenerator<Uint8Array, void, undefined> {
  yield* open() as AsyncIterable<Uint8Array>;
}

async function isStored(digest: string, target: BlobTarget, signal: AbortSignal): Promise<boolean> {
  try {
    await target.stat(digest, { signal });
    return true;
  } catch (error) {
    if (hasCode(error, 'not_found')) return false;
    throw error;
  }
}
