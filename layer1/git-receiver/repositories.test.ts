import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { removeOrphans, removeUnfinished } from './repositories.ts';

const { signal } = new AbortController();

async function repositories(...names: string[]): Promise<{ dir: string } & AsyncDisposable> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-repos-'));
  for (const name of names) await mkdir(join(dir, name, 'objects'), { recursive: true });
  return { dir, [Symbol.asyncDispose]: () => rm(dir, { recursive: true }) };
}

test('the repository of an app that is gone is removed, and nothing else', async () => {
  await using it = await repositories('a1.git', 'gone.git', '.new-x', 'lost+found');
  const platform = { appIds: async () => new Set(['a1', 'other']) };
  await removeOrphans({ repositoryDir: it.dir, platform, log: silentLogger() }, { signal });
  assert.deepEqual((await readdir(it.dir)).toSorted(), ['.new-x', 'a1.git', 'lost+found']);
});

test('a repository made while the apps are asked for stays', async () => {
  await using it = await repositories('gone.git');
  const appIds = async () => {
    await mkdir(join(it.dir, 'new.git'));
    return new Set<string>();
  };
  await removeOrphans({ repositoryDir: it.dir, platform: { appIds }, log: silentLogger() }, { signal });
  assert.deepEqual(await readdir(it.dir), ['new.git']);
});

test('nothing is removed when the apps cannot be listed', async () => {
  await using it = await repositories('a1.git');
  const appIds = () => Promise.reject(new FlynnError('unavailable', 'the controller is away'));
  const sweep = removeOrphans({ repositoryDir: it.dir, platform: { appIds }, log: silentLogger() }, { signal });
  await assert.rejects(sweep, { code: 'unavailable' });
  assert.deepEqual(await readdir(it.dir), ['a1.git']);
});

test('before the first push there is nothing to remove', async () => {
  const platform = { appIds: () => Promise.reject(new Error('not asked for')) };
  await removeOrphans({ repositoryDir: '/nonexistent/repos', platform, log: silentLogger() }, { signal });
});

test('what a push left that was cut off with the receiver is removed, and no object', async () => {
  await using it = await repositories('a1.git', 'b2.git');
  for (const path of ['a1.git/objects/tmp_objdir-incoming-x/pack', 'a1.git/objects/pack']) {
    await mkdir(join(it.dir, path), { recursive: true });
  }
  await removeUnfinished(it.dir);
  assert.deepEqual(await readdir(join(it.dir, 'a1.git/objects')), ['pack']);
  await removeUnfinished(join(it.dir, 'none'));
});

test('what packing left that was killed is removed, with its locks, and no pack', async () => {
  await using it = await repositories('a1.git');
  const objects = join(it.dir, 'a1.git/objects');
  for (const dir of ['pack', 'info/commit-graphs', 'ab']) await mkdir(join(objects, dir), { recursive: true });
  const kept = ['pack/pack-1.pack', 'pack/pack-1.idx', 'info/packs', 'info/commit-graphs/graph-1.graph', 'ab/cdef'];
  const left = [
    'maintenance.lock',
    'info/commit-graph.lock',
    'info/commit-graphs/commit-graph-chain.lock',
    'pack/multi-pack-index.lock',
    'pack/tmp_pack_a1',
    'pack/tmp_idx_a1',
    'pack/.tmp-77-pack-2.pack',
  ];
  for (const name of [...kept, ...left]) await writeFile(join(objects, name), '');
  await writeFile(join(it.dir, 'a1.git/gc.pid'), '1 elsewhere');
  await removeUnfinished(it.dir);
  const files = await readdir(objects, { recursive: true, withFileTypes: true });
  const names = files.filter((one) => one.isFile()).map((one) => relative(objects, join(one.parentPath, one.name)));
  assert.deepEqual(names.toSorted(), kept.toSorted());
  assert.deepEqual(await readdir(join(it.dir, 'a1.git')), ['objects']);
});

test('locks of a git that was killed are removed, and repositories that were not made whole', async () => {
  await using it = await repositories('a1.git', '.new-x');
  await mkdir(join(it.dir, 'a1.git/refs/heads/rel'), { recursive: true });
  const left = [
    'HEAD',
    'HEAD.lock',
    'packed-refs.lock',
    'refs/heads/main',
    'refs/heads/main.lock',
    'refs/heads/rel/prod.lock',
  ];
  for (const name of left) await writeFile(join(it.dir, 'a1.git', name), '');
  await removeUnfinished(it.dir);
  assert.deepEqual(await readdir(it.dir), ['a1.git']);
  assert.deepEqual((await readdir(join(it.dir, 'a1.git'))).toSorted(), ['HEAD', 'objects', 'refs']);
  const refs = await readdir(join(it.dir, 'a1.git/refs/heads'), { recursive: true });
  assert.deepEqual(refs.toSorted(), ['main', 'rel']);
});
