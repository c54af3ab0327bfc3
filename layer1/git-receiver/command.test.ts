import assert from 'node:assert/strict';
import { test } from 'node:test';
import { parseCommand } from './command.ts';

test('the commands git sends name a service and an app', () => {
  for (const path of ["'/my-app.git'", "'my-app.git'", "'/my-app'", '/my-app.git', "'/my-app.git/'"]) {
    assert.deepEqual(parseCommand(`git-receive-pack ${path}`), { service: 'receive-pack', app: 'my-app' }, path);
  }
  assert.deepEqual(parseCommand("git upload-pack '/a.git'"), { service: 'upload-pack', app: 'a' });
});

test('git lfs is told how to push without it', () => {
  for (const command of [
    "git-lfs-authenticate '/a.git' upload",
    "git-lfs-transfer '/a.git' download",
    'git lfs-transfer a',
  ]) {
    const parsed = parseCommand(command);
    assert.ok(
      'problem' in parsed && /^flynn keeps no objects of Git LFS.*GIT_LFS_SKIP_PUSH=1 git push/.test(parsed.problem),
    );
  }
});

test('everything else is refused in words', () => {
  for (const command of [
    'ls',
    '',
    'git-upload-archive /a.git',
    'rm -rf /',
    "git-receive-pack '/a.git'; ls",
    'git-receive-pack',
    'bash',
  ]) {
    const parsed = parseCommand(command);
    assert.ok('problem' in parsed && parsed.problem.length > 20, command);
  }
  for (const path of [
    "'/../etc.git'",
    "'/a/b.git'",
    "'/A.git'",
    "'/-x.git'",
    "'/a.git' '/b.git'",
    "'/a\n.git'",
    "'--help'",
  ]) {
    assert.ok('problem' in parseCommand(`git-receive-pack ${path}`), path);
  }
});
