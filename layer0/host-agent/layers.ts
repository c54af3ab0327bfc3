/** Layers as the blob store has them (tar, gzip or zstd), verified and unpacked to plain tar files. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { PassThrough, Transform } from 'node:stream';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { decompressorOf, headOfFile } from '@flynn/kit/compression';
import { FlynnError } from '@flynn/kit/errors';

/** Stores the blob at `path`; other bytes than the digest promises are `invalid`. */
export async function saveBlob(blob: Readable, digest: string, path: string, signal?: AbortSignal): Promise<void> {
  const hash = createHash('sha256');
  const tap = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      hash.update(chunk);
      done(null, chunk);
    },
  });
  await pipeline(blob, tap, createWriteStream(path), signal === undefined ? {} : { signal });
  const actual = `sha256:${hash.digest('hex')}`;
  if (actual !== digest) {
    throw new FlynnError(
      'invalid',
      `the layer ${digest} arrived as ${actual}: it is damaged in the blob store or on its way`,
    );
  }
}

/** Answers the size of the plain tar at `to`. */
export async function decompress(from: string, to: string, signal?: AbortSignal): Promise<number> {
  await pipeline(
    createReadStream(from),
    decompressorOf(await headOfFile(from)) ?? new PassThrough(),
    createWriteStream(to),
    signal === undefined ? {} : { signal },
  );
  return (await stat(to)).size;
}
