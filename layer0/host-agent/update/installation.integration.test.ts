/** A host with a disk of its own, smaller than the bundle it is sent. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtempDisposable, readdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { installationHandlers, installationRoutes } from './installation.ts';

test('a disk that fills while a bundle arrives is told as that, and nothing of the bundle stays', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-installation-'));
  const stateDir = join(folder.path, 'state');
  await mkdir(stateDir);
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=256k', 'none', stateDir]);
  try {
    await using server = await startServer({
      name: 'test',
      handlers: installationHandlers({
        installation: join(folder.path, 'opt/1.0.0'),
        stateDir,
        dockerSocket: '/none',
        engine: { listImages: async () => [] },
        engineDir: '/',
        log: silentLogger(),
      }),
      host: '127.0.0.1',
      port: 0,
      log: silentLogger(),
      signal: new AbortController().signal,
    });
    await using client = new HttpClient({ baseUrl: `http://127.0.0.1:${server.port}`, name: 'the agent' });
    const content = Buffer.alloc(2_000_000);
    const sha256 = createHash('sha256').update(content).digest('hex');
    await assert.rejects(
      client.call(installationRoutes.put, { query: { sha256 }, body: Readable.from([content]) }),
      (error) => hasCode(error, 'exhausted') && /no room for the bundle at .*state\/tmp/.test(error.message),
    );
    assert.deepEqual(await readdir(join(stateDir, 'tmp')), []);
  } finally {
    // Of what was refused a file may be closing still.
    execFileSync('umount', ['--lazy', stateDir]);
  }
});
