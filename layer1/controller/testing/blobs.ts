/** A real blob store in a directory of its own. For tests. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { type BlobClient, createBlobClient } from '@flynn/blobstore/client';
import { openFilesystem } from '@flynn/blobstore/filesystem';
import { blobHandlers } from '@flynn/blobstore/server';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';

export async function startTestBlobs(): Promise<AsyncDisposable & { url: string; blobs: BlobClient }> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-test-blobs-'));
  const storage = await openFilesystem(dir, { nowMs: Date.now() });
  const handlers = blobHandlers(storage);
  const server = await startServer({
    name: 'blobs',
    handlers,
    key: 'k',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
  });
  const blobs = createBlobClient({ baseUrl: server.url, key: 'k' });
  return {
    url: server.url,
    blobs,
    async [Symbol.asyncDispose]() {
      await blobs.close();
      await server.close();
      // What a worker that was ended was just storing is given up a moment later.
      await rm(dir, { recursive: true, force: true, maxRetries: 10 });
    },
  };
}
