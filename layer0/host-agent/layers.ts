/** Layers as the blob store has them (tar, gzip or zstd), verified and unpacked to plain tar files. */
import { createHash } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { PassThrough, Transform } from 'node:stream';
import type { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createZstdDecompress } from 'node:zlib';
import { FlynnError } from '@flynn/kit/errors';

const gzipMagic = Buffer.from([0x1f, 0x8b]);
const zstdMagic = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);

/** What undoes the compression of a file that begins like this. */
function decompressorFor(head: Buffer): Transform {
  if (head.subarray(0, 2).equals(gzipMagic)) return createGunzip();
  if (head.subarray(0, 4).equals(zstdMagic)) return createZstdDecompress();
  return new PassThrough();
}

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
  const file = await open(from);
  const head = Buffer.alloc(4);
  await file.read(head, 0, 4, 0);
  await file.close();
  await pipeline(
    createReadStream(from),
    decompressorFor(head),
    createWriteStream(to),
    signal === undefined ? {} : { signal },
  );
  return (await stat(to)).size;
}
