import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { connectDocker } from './docker.ts';

test('an engine whose locks are stuck answers its list, and is told by that of networks', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  let isStuck = true;
  const server = createServer((request, response) => {
    if (isStuck && request.url?.startsWith('/networks') === true) return;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end('[]');
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const fetchBlob = () => Promise.reject(new FlynnError('not_found', 'no blobs'));
  const engine = connectDocker({ socketPath, cluster: 'test', fetchBlob, scratchDir: folder.path });
  try {
    assert.deepEqual(await engine.list(), []);
    await assert.rejects(engine.checkLocks({ deadlineMs: 50 }), { code: 'timeout' });
    isStuck = false;
    await engine.checkLocks({ deadlineMs: 60_000 });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
