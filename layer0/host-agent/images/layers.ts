/** Layers as the blob store has them (tar, gzip or zstd), verified and unpacked to plain tar files. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { PassThrough, Transform } from 'node:stream';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { abortError } from '@flynn/kit/clock';
import { decompressorOf, headOfFile } from '@flynn/kit/compression';
import { FlynnError } from '@flynn/kit/errors';
import { TaskGroup } from '@flynn/kit/tasks';
import type { CallOptions, FetchBlob } from '../engine/engine.ts';
import type { ImageRoom } from './room.ts';

/** Passes bytes on, or fails when there are too many. */
type Check = (chunks: AsyncIterable<Buffer>, digest: string) => AsyncIterable<Buffer>;

/** Stores the blob at `path`; other bytes than the digest promises are `invalid`. */
export async function saveBlob(
  blob: Readable,
  digest: string,
  { path, check, signal }: { path: string; check: Check; signal?: AbortSignal | undefined },
): Promise<void> {
  const { tap, digestOf } = digesting();
  const checked = (chunks: AsyncIterable<Buffer>) => check(chunks, digest);
  await pipeline(blob, checked, tap, createWriteStream(path), signal === undefined ? {} : { signal });
  const actual = digestOf();
  if (actual !== digest) {
    throw new FlynnError(
      'invalid',
      `the layer ${digest} arrived as ${actual}: it is damaged in the blob store or on its way`,
    );
  }
}

/** `diffId`: the digest of the plain tar file, by which an engine knows a layer. */
export type UnpackedLayer = { path: string; sizeBytes: number; diffId: string };

/** The layer, fetched and unpacked to a plain tar file of this name in `dir`. */
export async function unpackLayer(
  fetchBlob: FetchBlob,
  digest: string,
  { dir, name, room, signal }: { dir: string; name: string; room: ImageRoom; signal?: AbortSignal | undefined },
): Promise<UnpackedLayer> {
  await room.look();
  const limits = signal === undefined ? {} : { signal };
  const from = join(dir, `${name}.blob`);
  const path = join(dir, name);
  await saveBlob(await fetchBlob(digest, limits), digest, {
    path: from,
    check: (chunks) => room.stored(chunks, digest),
    signal,
  });
  const { tap, digestOf } = digesting();
  await pipeline(
    createReadStream(from),
    decompressorOf(await headOfFile(from)) ?? new PassThrough(),
    (chunks: AsyncIterable<Buffer>) => room.unpacked(chunks, digest),
    tap,
    createWriteStream(path),
    limits,
  );
  await rm(from, { force: true });
  return { path, sizeBytes: (await stat(path)).size, diffId: digestOf() };
}

/** Passes bytes on, and tells their digest once all have passed. */
function digesting(): { tap: Transform; digestOf: () => string } {
  const hash = createHash('sha256');
  const tap = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
  });
  return { tap, digestOf: () => `sha256:${hash.digest('hex')}` };
}

/** The first failure ends the others, and is told once all have ended: what they write is removed then. */
export async function allOrNothing(
  tasks: readonly ((signal: AbortSignal) => Promise<void>)[],
  options: CallOptions,
): Promise<void> {
  const group = new TaskGroup(options);
  for (const task of tasks) group.run('a part of an image', task);
  await group.done();
  if (options.signal?.aborted === true) throw abortError(options.signal);
}
