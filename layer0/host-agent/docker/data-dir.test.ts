import assert from 'node:assert/strict';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { engineDataDir } from './data-dir.ts';

test('an engine keeps its data on the disk that it is told to, else at the usual place', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-data-dir-'));
  const settings = join(folder.path, 'daemon.json');
  assert.equal(await engineDataDir(settings), '/var/lib/docker');
  for (const text of ['{ "log-driver": "local" }', '', '{ "data-root": }']) {
    await writeFile(settings, text);
    assert.equal(await engineDataDir(settings), '/var/lib/docker');
  }
  await writeFile(settings, '{ "data-root": "/data/docker" }');
  assert.equal(await engineDataDir(settings), '/data/docker');
});
