import assert from 'node:assert/strict';
import { chmod, mkdir, mkdtempDisposable, readFile, readdir, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'node:test';
import { z } from 'zod';
import { hasCode } from './errors.ts';
import { readJsonFile, readTextFile, writeFileAtomic } from './files.ts';

const schema = z.object({ count: z.number() });

test('a file is replaced whole, with the mode asked for, and leaves nothing beside it', async () => {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), 'flynn-files-'));
  const file = path.join(folder.path, 'state.json');
  await writeFile(file, 'old and much longer than what replaces it');
  await chmod(file, 0o644);
  await writeFileAtomic(file, '{"count":1}', { mode: 0o640 });
  assert.equal(await readFile(file, 'utf8'), '{"count":1}');
  assert.equal((await stat(file)).mode & 0o777, 0o640);
  assert.deepEqual(await readdir(folder.path), ['state.json']);
});

test('the mode is the one asked for whatever the umask is, and the owner too', async () => {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), 'flynn-files-'));
  const file = path.join(folder.path, 'state.json');
  const before = process.umask(0o077);
  try {
    const owner = { uid: 4_242, gid: 4_243 };
    await writeFileAtomic(file, 'x', { mode: 0o2664, owner });
    const { mode, uid, gid } = await stat(file);
    assert.deepEqual([mode & 0o7777, uid, gid], [0o2664, owner.uid, owner.gid]);
    process.umask(0);
    await writeFileAtomic(file, 'y');
    assert.equal((await stat(file)).mode & 0o7777, 0o600);
  } finally {
    process.umask(before);
  }
});

test('a write that fails leaves the old file and no temporary one', async () => {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), 'flynn-files-'));
  // A folder in the file's place makes the last step, the rename, fail.
  const file = path.join(folder.path, 'taken');
  await writeFileAtomic(path.join(folder.path, 'other'), 'x');
  await assert.rejects(writeFileAtomic(path.join(folder.path, 'missing', 'x'), 'x'), /ENOENT/);
  await mkdir(file);
  await assert.rejects(writeFileAtomic(file, 'x'), /EISDIR|ENOTEMPTY|EEXIST/);
  assert.deepEqual((await readdir(folder.path)).sort(), ['other', 'taken']);
});

test('many writers at once leave one of their contents', async () => {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), 'flynn-files-'));
  const file = path.join(folder.path, 'state.json');
  await Promise.all(Array.from({ length: 20 }, (_, count) => writeFileAtomic(file, JSON.stringify({ count }))));
  const state = await readJsonFile(file, schema);
  assert.ok(state !== undefined && state.count < 20);
  assert.deepEqual(await readdir(folder.path), ['state.json']);
});

test('a JSON file is read through its schema; a missing one is undefined, a wrong one invalid with its name', async () => {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), 'flynn-files-'));
  const file = path.join(folder.path, 'state.json');
  assert.equal(await readJsonFile(file, schema), undefined);
  for (const wrong of ['{"count":"x"}', '{"cou']) {
    await writeFile(file, wrong);
    await assert.rejects(readJsonFile(file, schema), (error) => {
      assert.ok(hasCode(error, 'invalid'));
      assert.ok(error.message.startsWith(`${file} is not usable`));
      return true;
    });
  }
});

test('a text file that is not there is no error, one that cannot be read is, with its name', async () => {
  await using folder = await mkdtempDisposable(path.join(tmpdir(), 'flynn-files-'));
  assert.equal(await readTextFile(path.join(folder.path, 'missing')), undefined);
  await assert.rejects(readTextFile(folder.path), {
    code: 'invalid',
    message: new RegExp(`^${folder.path} cannot be read`),
  });
});

test('a file that the disk does not give just now is unavailable: nothing is known of what is in it', async () => {
  // Of a process's memory nothing can be read at its beginning.
  const file = '/proc/self/mem';
  const unavailable = { code: 'unavailable', message: new RegExp(`^${file} cannot be read: EIO`) };
  await assert.rejects(readTextFile(file), unavailable);
  await assert.rejects(readJsonFile(file, schema), unavailable);
});
