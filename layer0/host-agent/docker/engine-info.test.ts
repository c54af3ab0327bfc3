import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import Docker from 'dockerode';
import { hasCode } from '@flynn/kit/errors';
import { engineInfo } from './engine-info.ts';

test('an engine that hangs over its networks is known by its version and the machine it is on; one that is frozen is not', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  let isFrozen = false;
  const server = createServer((request, response) => {
    if (isFrozen || request.url?.includes('/version') !== true) return;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ Version: '20.10.24' }));
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const context = { docker: new Docker({ socketPath }) };
  try {
    // Long enough for an answer on a machine that stands still.
    const { version, cores, memoryBytes, rootDir } = await engineInfo(context, { deadlineMs: 3_000 });
    assert.deepEqual([version, cores], ['20.10.24', availableParallelism()]);
    assert.ok(memoryBytes > 0);
    assert.match(rootDir ?? '', /^\//);
    isFrozen = true;
    await assert.rejects(engineInfo(context, { deadlineMs: 50 }), (error) => hasCode(error, 'timeout'));
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
