/** What git does with the settings it is always given. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { ensureRepository, exitOf, runGit, startGit } from './git.ts';

test('objects and branches are on the disk before git says that they are stored', async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-git-'));
  t.after(() => rm(dir, { recursive: true }));
  const git = (input: string, ...args: string[]): Buffer =>
    execFileSync('git', ['-C', dir, '-c', 'user.name=a', '-c', 'user.email=a@a', ...args], { input });
  git('', 'init', '-q', '-b', 'main');
  await writeFile(join(dir, 'file'), 'content');
  git('', 'add', 'file');
  git('', 'commit', '-q', '-m', 'x');
  const objects = git('', 'rev-list', '--objects', 'main').toString();
  const pack = git(objects, 'pack-objects', '--stdout', '-q');
  const repository = await ensureRepository(join(dir, 'repos'), 'a1');

  const trace = join(dir, 'trace');
  const env = { GIT_TRACE2_EVENT: trace };
  const unpacking = startGit(['--git-dir', repository, 'unpack-objects', '-q'], { env });
  unpacking.stdin.end(pack);
  unpacking.stdout.resume();
  unpacking.stderr.resume();
  assert.equal(await exitOf(unpacking), 0);
  const head = git('', 'rev-parse', 'main').toString().trim();
  await runGit(['--git-dir', repository, 'update-ref', 'refs/heads/main', head], { env });

  const lines = (await readFile(trace, 'utf8')).split('\n').filter((line) => line.includes('"fsync/hardware-flush"'));
  assert.deepEqual(
    lines.map((line) => /"value":"?(\d+)/.exec(line)?.[1]),
    ['3', '1'],
    'a commit, its tree and its file; the branch',
  );
});
