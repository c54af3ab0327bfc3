/** What is in a commit, with real git: its submodules, and more than anybody could unpack. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { archiveOf, findSubmodules, treeLimits } from './archive.ts';

const never = new AbortController().signal;
const commitOf = '1'.repeat(40);

async function setUp(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-archive-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const git = (input: string, ...args: string[]): string =>
    execFileSync('git', ['--git-dir', dir, '-c', 'user.name=a', '-c', 'user.email=a@a', ...args], { input })
      .toString()
      .trim();
  execFileSync('git', ['init', '-q', '--bare', dir]);
  const tree = (...entries: string[]): string =>
    git(entries.map((entry) => `${entry}\n`).join(''), 'mktree', '--missing');
  const blob = (content: string): string => git(content, 'hash-object', '-w', '--stdin');
  const source = (treeId: string) => ({ repository: dir, commit: git('', 'commit-tree', '-m', 'x', treeId) });
  return { tree, blob, source };
}

/** Few objects that are 10 to the power of `depth` paths. */
function bomb({ tree }: Awaited<ReturnType<typeof setUp>>, leaf: string, depth: number): string {
  let id = leaf;
  for (let level = 0; level < depth; level += 1) {
    id = tree(...Array.from({ length: 10 }, (_, at) => `040000 tree ${id}\td${at}`));
  }
  return id;
}

test('submodules are found by their paths, however many files there are beside them', async (t) => {
  const world = await setUp(t);
  const file = world.blob('x');
  const files = Array.from({ length: 20_000 }, (_, at) => `100644 blob ${file}\tfile number ${at}`);
  const inner = world.tree(`160000 commit ${commitOf}\tlib é`, ...files);
  const source = world.source(world.tree(`040000 tree ${inner}\tvendor`, `160000 commit ${commitOf}\tz`));
  assert.deepEqual(await findSubmodules(source, never), { 'vendor/lib é': commitOf, z: commitOf });
});

test('few objects that are a thousand million paths, of files or of folders alone, are refused at once', async (t) => {
  const world = await setUp(t);
  const file = world.tree(`100644 blob ${world.blob('x')}\tf`);
  for (const leaf of [file, world.tree()]) {
    await assert.rejects(
      findSubmodules(world.source(bomb(world, leaf, 9)), never),
      (error) => hasCode(error, 'invalid') && /has more than 1000000 files and folders: keep/.test(error.message),
    );
  }
});

test('a path that no system takes, and submodules that git cannot be told, are refused', async (t) => {
  const world = await setUp(t);
  const long = world.tree(`100644 blob ${world.blob('x')}\t${'n'.repeat(200_000)}`);
  await assert.rejects(
    findSubmodules(world.source(long), never),
    (error) => hasCode(error, 'invalid') && /a path of more than 8192 bytes/.test(error.message),
  );
  const many = world.tree(...Array.from({ length: 2_000 }, (_, at) => `160000 commit ${commitOf}\tmodule${at}`));
  await assert.rejects(
    findSubmodules(world.source(many), never),
    (error) => hasCode(error, 'invalid') && /has more than 1\d\d\d submodules: keep/.test(error.message),
  );
  const fewer = { ...treeLimits, paths: 3 };
  const three = world.source(world.tree(...[1, 2, 3].map((at) => `160000 commit ${commitOf}\tm${at}`)));
  assert.equal(Object.keys(await findSubmodules(three, never, fewer)).length, 3);
});

test('whoever goes away is not kept by a commit that is long to tell', async (t) => {
  const world = await setUp(t);
  const source = world.source(bomb(world, world.tree(), 12));
  const leaving = new AbortController();
  const endless = findSubmodules(source, leaving.signal, { ...treeLimits, paths: Infinity });
  setTimeout(() => leaving.abort(), 300);
  await assert.rejects(endless, (error) => hasCode(error, 'cancelled'));
});

test('an archive of more than is taken fails, and is not taken for a whole one', async (t) => {
  const world = await setUp(t);
  const source = world.source(world.tree(`100644 blob ${world.blob('x'.repeat(300_000))}\tf`));
  const read = async (maxBytes?: number): Promise<number> => {
    let bytes = 0;
    for await (const chunk of archiveOf(source, {}, never, maxBytes)) bytes += chunk.length;
    return bytes;
  };
  assert.ok((await read()) > 300_000);
  await assert.rejects(
    read(200_000),
    (error) => hasCode(error, 'invalid') && /more than 0\.19\d* MiB of files/.test(error.message),
  );
});
