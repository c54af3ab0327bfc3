import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { HttpClient } from '@flynn/kit/http-client';
import { collectDebug } from './debug.ts';

test('what is gathered for others has what an update left behind, and a file that cannot be written is told', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-debug-'));
  // Of an agent that is not there all else is gathered.
  await using client = new HttpClient({ baseUrl: 'http://127.0.0.1:1', name: 'the agent' });
  const installation = { stateDir: folder.path, url: 'http://127.0.0.1:1', key: 'k', environment: {} };
  await writeFile(join(folder.path, 'update.log'), 'the end of it\n');
  const file = await collectDebug(client, installation, join(folder.path, 'debug.tar.gz'));
  const told = execFileSync('tar', ['-xzOf', file, '--wildcards', '*/agent/update.log'], { encoding: 'utf8' });
  assert.equal(told, 'the end of it\n');
  const lost = join(folder.path, 'none', 'debug.tar.gz');
  for (const path of [lost, '/dev/full']) {
    await assert.rejects(collectDebug(client, installation, path), {
      code: 'unavailable',
      message: new RegExp(`^${path} cannot be written: .*collect-debug FILE$`),
    });
  }
  assert.ok(existsSync('/dev/full'));
});
