/** A part of a commit, with real git: what is archived of it, and what it cannot be. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { archiveOf } from './archive.ts';
import { type Located, locate } from './build-place.ts';
import { remoteHead, setUp } from './testing.ts';

const never = new AbortController().signal;
const app = { name: 'web' };
const moduleCommit = '1'.repeat(40);

async function setUpRepository(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-place-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const git = (...args: string[]): string =>
    execFileSync('git', ['-C', dir, '-c', 'user.name=a', '-c', 'user.email=a@a', ...args])
      .toString()
      .trim();
  git('init', '-q', '-b', 'main');
  const write = async (name: string, content: string): Promise<void> => {
    await mkdir(dirname(join(dir, name)), { recursive: true });
    await writeFile(join(dir, name), content);
  };
  await write('package.json', 'of the top');
  await write('apps/web/package.json', 'of web');
  await write('apps/web/deploy/web.Dockerfile', 'FROM x');
  await write('apps/web/[a]*/x', 'a name that looks like a pattern');
  await write(
    '.gitmodules',
    '[submodule "lib"]\n\tpath = apps/web/lib\n\turl = https://git.example.com/lib.git\n[submodule "top"]\n\tpath = top\n\turl = https://git.example.com/top.git\n',
  );
  await symlink('apps', join(dir, 'link'));
  await symlink('/etc', join(dir, 'apps/out'));
  await symlink('package.json', join(dir, 'apps/web/Dockerfile'));
  git('add', '-A');
  for (const path of ['apps/web/lib', 'top'])
    git('update-index', '--add', '--cacheinfo', `160000,${moduleCommit},${path}`);
  git('commit', '-q', '-m', 'x');
  const commit = git('rev-parse', 'HEAD');
  return { dir, git, write, source: { repository: join(dir, '.git'), commit } };
}

async function filesOf({ source, submodules }: Located): Promise<Map<string, string>> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-place-'));
  try {
    const archive = Buffer.concat(await Array.fromAsync(archiveOf(source, submodules, never)));
    execFileSync('tar', ['-xf', '-', '-C', dir], { input: archive });
    const names = execFileSync('find', ['.', '-type', 'f', '-printf', '%P\\0'], { cwd: dir })
      .toString()
      .split('\0')
      .filter((name) => name !== '');
    return new Map(names.map((name) => [name, execFileSync('cat', [join(dir, name)]).toString()]));
  } finally {
    await rm(dir, { recursive: true });
  }
}

test('a folder is archived as if it were the repository, its submodules with it', async (t) => {
  const { source } = await setUpRepository(t);
  const place = { folder: 'apps/web', dockerfile: 'deploy/web.Dockerfile' };
  const files = await filesOf(await locate(source, place, { app, signal: never }));
  assert.deepEqual([...files.keys()].sort(), [
    '.flynn-submodules.json',
    '.gitmodules',
    '[a]*/x',
    'deploy/web.Dockerfile',
    'package.json',
  ]);
  assert.equal(files.get('package.json'), 'of web');
  assert.deepEqual(JSON.parse(files.get('.flynn-submodules.json') ?? ''), { lib: moduleCommit });
  assert.match(files.get('.gitmodules') ?? '', /path = "lib"\n\turl = "https:\/\/git\.example\.com\/lib\.git"\n$/);
  const odd = await filesOf(await locate(source, { folder: 'apps/web/[a]*' }, { app, signal: never }));
  assert.deepEqual([...odd.keys()], ['x']);
});

test('a folder of the same commit is the same archive, each file as of the commit, and is not told of it', async (t) => {
  const { git, write, source: before } = await setUpRepository(t);
  await write('apps/web/.gitattributes', 'version export-subst\n');
  await write('apps/web/version', '$Format:%H$');
  // More than one chunk of what git writes, and names that have a header of their own.
  await write('apps/web/large', 'x'.repeat(300_001));
  await write(`apps/web/${'n'.repeat(200)}`, 'long');
  git('add', '-A', 'apps/web/.gitattributes', 'apps/web/version', 'apps/web/large', `apps/web/${'n'.repeat(200)}`);
  git('commit', '-q', '-m', 'x');
  const made = Number(git('log', '-1', '--format=%ct'));
  const source = { ...before, commit: git('rev-parse', 'HEAD') };
  const located = await locate(source, { folder: 'apps/web' }, { app, signal: never });
  const archive = async (): Promise<Buffer> =>
    Buffer.concat(await Array.fromAsync(archiveOf(located.source, located.submodules, never)));
  const first = await archive();
  // git tells the time in whole seconds.
  await waitFor(() => Date.now() >= (made + 2) * 1_000, { what: 'another second', deadlineMs: 10_000 });
  assert.ok(first.equals(await archive()));
  const listed = execFileSync('tar', ['--utc', '--full-time', '-tvf', '-'], { input: first }).toString();
  const day = new Date(made * 1_000).toISOString().slice(0, 19).replace('T', ' ');
  for (const line of listed.trim().split('\n')) assert.ok(line.includes(` ${day} `), line);
  const files = await filesOf(located);
  assert.equal(files.get('version'), '$Format:%H$');
  assert.equal(files.get('large')?.length, 300_001);
  assert.equal(files.get('n'.repeat(200)), 'long');
});

test('without a folder all of the commit is archived, wherever its Dockerfile is', async (t) => {
  const { source } = await setUpRepository(t);
  const place = { dockerfile: 'apps/web/deploy/web.Dockerfile' };
  const located = await locate(source, place, { app, signal: never });
  assert.deepEqual(located, { source, submodules: { 'apps/web/lib': moduleCommit, top: moduleCommit } });
  assert.equal((await filesOf(located)).get('package.json'), 'of the top');
});

test('what is missing, a file, a link or a submodule is no folder, and the refusal says where it is set', async (t) => {
  const { source } = await setUpRepository(t);
  const short = source.commit.slice(0, 8);
  for (const [place, why] of [
    [{ folder: 'apps/api' }, `apps/api, the folder that web is built from (build.folder of its metadata`],
    [{ folder: 'apps/api' }, `is not in commit ${short}. Commit it there, or name another: flynn build set --folder`],
    [{ folder: 'apps/web/package.json' }, `is a file in commit ${short}`],
    [{ folder: 'apps/out' }, `is a symbolic link in commit`],
    [{ folder: 'link/web' }, `cannot be in: link is a symbolic link there, in commit`],
    [{ folder: 'top' }, `is a submodule in commit`],
    [{ folder: 'apps/web/lib/x' }, `cannot be in: apps/web/lib is a submodule there, in commit`],
    [{ folder: 'package.json/x' }, `cannot be in: package.json is a file there, in commit`],
    [{ folder: 'apps/*' }, `is not in commit`],
    [{ dockerfile: 'web.Dockerfile' }, `web.Dockerfile, the Dockerfile that web is built from (build.dockerfile of`],
    [
      { folder: 'apps/web', dockerfile: 'apps/web/deploy/web.Dockerfile' },
      `apps/web/apps/web/deploy/web.Dockerfile, the`,
    ],
    [{ folder: 'apps/web', dockerfile: 'deploy' }, `is a folder in commit`],
    [{ folder: 'apps/web', dockerfile: 'Dockerfile' }, `is a symbolic link in commit`],
  ] as const) {
    await assert.rejects(
      locate(source, place, { app, signal: never }),
      (error) => hasCode(error, 'invalid') && error.message.includes(why),
      JSON.stringify(place),
    );
  }
});

test("a .gitmodules of any size is in nobody's way; where submodules need it, too much of it is refused", async (t) => {
  const { git, write, source } = await setUpRepository(t);
  const commit = async (modules: string): Promise<Located['source']> => {
    await write('.gitmodules', modules);
    git('add', '.gitmodules');
    git('commit', '-q', '-m', 'modules');
    return { ...source, commit: git('rev-parse', 'HEAD') };
  };
  const web = (from: Located['source']) => locate(from, { folder: 'apps/web' }, { app, signal: never });
  const long = await commit(`# ${'x'.repeat(2 * 1024 ** 2)}\n`);
  await assert.rejects(web(long), (error) => hasCode(error, 'invalid') && /has more than 1 MiB/.test(error.message));
  // A name is told with each of its settings: this is 1 GB.
  const told = await commit(`[submodule "${'x'.repeat(10_000)}"]\n${'\ta\n'.repeat(100_000)}`);
  await assert.rejects(web(told), (error) => hasCode(error, 'invalid') && /tells too much of/.test(error.message));
  for (const from of [long, told]) {
    const { submodules } = await locate(from, { folder: 'apps/web/deploy' }, { app, signal: never });
    assert.deepEqual(submodules, {});
  }
});

test(
  'several apps are pushed from one repository; one whose folder is not there is refused and stores nothing',
  { timeout: 180_000 },
  async (t) => {
    const world = await setUp(t);
    for (const name of ['web', 'api']) await mkdir(join(world.work, name));
    const head = await world.commit({ 'web/file': 'w', 'api/file': 'a' });
    for (const folder of ['web', 'api']) {
      world.meta['build.folder'] = folder;
      const pushed = await world.git(['push', world.remote(folder === 'web' ? 'app' : 'other'), 'main']);
      assert.equal(pushed.code, 0, pushed.output);
      const push = world.pushes.at(-1);
      assert.deepEqual([push?.folder, push?.dockerfile, push?.commit], [folder, undefined, head]);
      const archive = await (await world.blobs.get(push?.sourceDigest ?? '')).toArray();
      const listed = execFileSync('tar', ['-tf', '-'], { input: Buffer.concat(archive) }).toString();
      assert.equal(listed, 'file\n');
    }
    world.meta['build.folder'] = 'worker';
    await world.commit({ 'web/file': 'w2' });
    const missing = await world.git(['push', world.remote(), 'main']);
    assert.notEqual(missing.code, 0);
    assert.match(missing.output, /did not get through: worker, the folder that app is built from/);
    assert.match(missing.output, /flynn build set --folder PATH -a app/);
    assert.doesNotMatch(missing.output, /Push again in a moment/);
    assert.equal(world.pushes.length, 2);
    assert.equal(await remoteHead(world), head);
  },
);
