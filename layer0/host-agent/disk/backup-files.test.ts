import assert from 'node:assert/strict';
import { mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { backupFileHandlers, backupFileRoutes } from './backup-files.ts';

test('what an agent that was killed had written of a backup goes with the next one, and nothing else', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'backup-files-'));
  t.after(() => rm(directory, { recursive: true }));
  const log = silentLogger();
  const server = await startServer({ name: 'agent', handlers: backupFileHandlers(), host: '127.0.0.1', port: 0, log });
  t.after(() => server.close());
  const client = new HttpClient({ baseUrl: server.url, name: 'the agent' });
  t.after(() => client.close());
  const longAgo = new Date(Date.now() - 13 * 3_600_000);
  const old = ['.a-1.backup.k3v9x2m1q8aa.part', '.notes.part', 'b.backup.part', 'old.backup'];
  for (const name of [...old, '.a-2.backup.k3v9x2m1q8ab.part']) {
    await writeFile(join(directory, name), 'some of it');
    if (old.includes(name)) await utimes(join(directory, name), longAgo, longAgo);
  }
  const put = (path: string) =>
    client.call(backupFileRoutes.put, { query: { path }, body: Readable.from([Buffer.from('whole')]) });
  assert.equal((await put(join(directory, 'new.backup'))).sizeBytes, 5);
  assert.deepEqual((await readdir(directory)).toSorted(), [
    '.a-2.backup.k3v9x2m1q8ab.part',
    '.notes.part',
    'b.backup.part',
    'new.backup',
    'old.backup',
  ]);
  await assert.rejects(put(join(directory, 'nowhere/new.backup')), (error) => hasCode(error, 'not_found'));
});

test('where what a directory is on is mounted is told, and of one that is not there that it is not', async (t) => {
  const log = silentLogger();
  const server = await startServer({ name: 'agent', handlers: backupFileHandlers(), host: '127.0.0.1', port: 0, log });
  t.after(() => server.close());
  const client = new HttpClient({ baseUrl: server.url, name: 'the agent' });
  t.after(() => client.close());
  const below = await mkdtemp('/dev/shm/backup-files-');
  t.after(() => rm(below, { recursive: true }));
  const mountOf = async (directory: string) =>
    (await client.call(backupFileRoutes.mount, { query: { directory } })).mount;
  assert.equal(await mountOf(below), '/dev/shm');
  assert.equal(await mountOf('/dev/shm'), '/dev/shm');
  assert.equal(await mountOf('/'), undefined);
  await assert.rejects(mountOf(join(below, 'nowhere')), (error) => hasCode(error, 'not_found'));
});
