/** Is a file an etcd snapshot, whole and unchanged? etcd ends what it streams with the SHA-256 of all before it. */
import { createHash } from 'node:crypto';
import { open } from 'node:fs/promises';
import { FlynnError, hasErrno } from '@flynn/kit/errors';

const hashBytes = 32;
/** The database is written in pages, all a multiple of this. */
const pageBytes = 512;

export type SnapshotFacts = Readonly<{ bytes: number; sha256: string }>;

/** Throws `not_found`, or `invalid`: cut short, changed, or something else altogether. */
export async function verifySnapshot(file: string, options: { signal?: AbortSignal } = {}): Promise<SnapshotFacts> {
  try {
    await using handle = await open(file, 'r');
    const { size } = await handle.stat();
    const bytes = size - hashBytes;
    if (bytes <= 0 || bytes % pageBytes !== 0) throw notWhole(file, `${size} bytes cannot be one`);
    const hash = createHash('sha256');
    const stream = handle.createReadStream({ end: bytes - 1, autoClose: false, ...options });
    for await (const chunk of stream) hash.update(chunk);
    const sha256 = hash.digest('hex');
    const trailer = Buffer.alloc(hashBytes);
    await handle.read(trailer, 0, hashBytes, bytes);
    if (trailer.toString('hex') !== sha256) throw notWhole(file, 'its hash does not fit its content');
    return { bytes, sha256 };
  } catch (error) {
    if (hasErrno(error, 'ENOENT')) {
      throw new FlynnError('not_found', `there is no snapshot ${file}`, { cause: error });
    }
    throw error;
  }
}

function notWhole(file: string, why: string): FlynnError {
  return new FlynnError('invalid', `${file} is not a whole etcd snapshot: ${why}. Use another backup`);
}
