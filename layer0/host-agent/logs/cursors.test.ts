import assert from 'node:assert/strict';
import { mkdir, mkdtemp, mkdtempDisposable, open, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { test } from 'node:test';
import { createLogger, silentLogger } from '@flynn/kit/log';
import { LogCursors } from './cursors.ts';

test('cursors that cannot be saved are told about once, and saved when that works again', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-cursors-'));
  const path = join(dir, 'state', 'cursors.json');
  const said = new PassThrough();
  const opened = async () => {
    const cursors = new LogCursors({ path, log: createLogger('cursors', { destination: said }) });
    await cursors.load();
    return cursors;
  };
  const cursors = await opened();
  const cursor = { stdout: { timestampNs: 5n, count: 1 } };
  cursors.set('c', { cursor });
  await rm(join(dir, 'state'), { recursive: true });
  for (let attempt = 0; attempt < 3; attempt += 1) await cursors.save();
  assert.equal(String(said.read()).trim().split('\n').length, 1);
  await mkdir(join(dir, 'state'));
  await cursors.save();
  assert.deepEqual((await opened()).get('c'), { cursor });
  await rm(dir, { recursive: true });
});

test('the disk is not waited for: etcd may be on it', async (t) => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-cursors-'));
  await using handle = await open(folder.path, 'r');
  const sync = t.mock.method(Object.getPrototypeOf(handle), 'sync');
  const cursors = new LogCursors({ path: join(folder.path, 'cursors.json'), log: silentLogger() });
  const cursor = { stdout: { timestampNs: 5n, count: 1 } };
  cursors.set('c', { cursor });
  await cursors.save();
  assert.equal(sync.mock.callCount(), 0);
  const read = new LogCursors({ path: join(folder.path, 'cursors.json'), log: silentLogger() });
  await read.load();
  assert.deepEqual(read.get('c'), { cursor });
});
