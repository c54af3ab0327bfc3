/** A blob store in memory, and layers to put there. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { FlynnError } from '@flynn/kit/errors';
import { pack } from 'tar-stream';
import { type DockerFixture, openDocker } from './fixture.ts';

export const digestOf = (bytes: Buffer): string => `sha256:${createHash('sha256').update(bytes).digest('hex')}`;

export async function layerWith(name: string, content: string): Promise<Buffer> {
  const tar = pack();
  tar.entry({ name, mtime: new Date(0) }, content);
  tar.finalize();
  return buffer(tar);
}

/** Notes what is asked for. */
export function blobs() {
  const stored = new Map<string, Buffer>();
  const fetched: string[] = [];
  const put = (bytes: Buffer): { digest: string; sizeBytes: number } => {
    const digest = digestOf(bytes);
    stored.set(digest, bytes);
    return { digest, sizeBytes: bytes.length };
  };
  const fetchBlob = (digest: string): Promise<Readable> => {
    fetched.push(digest);
    const found = stored.get(digest);
    if (found === undefined) return Promise.reject(new FlynnError('not_found', `no blob ${digest}`));
    return Promise.resolve(Readable.from([found], { objectMode: false }));
  };
  return { stored, fetched, put, fetchBlob };
}

/** An engine that fetches from such a store. */
export async function withDocker(work: (docker: DockerFixture, store: ReturnType<typeof blobs>) => Promise<void>) {
  const store = blobs();
  const docker = await openDocker({ fetchBlob: store.fetchBlob });
  try {
    await work(docker, store);
  } finally {
    await docker.close();
  }
}
