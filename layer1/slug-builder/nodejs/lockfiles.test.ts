import assert from 'node:assert/strict';
import { test } from 'node:test';
import { chooseBun, chooseManager, isBerryLockfile, pnpmRangeOf } from './lockfiles.ts';

const chosen: [string[], string | undefined, string, string | undefined][] = [
  [['package.json', 'package-lock.json'], undefined, 'npm', 'package-lock.json'],
  [['npm-shrinkwrap.json'], undefined, 'npm', 'npm-shrinkwrap.json'],
  [['package-lock.json', 'npm-shrinkwrap.json'], undefined, 'npm', 'npm-shrinkwrap.json'],
  [['yarn.lock'], undefined, 'yarn', 'yarn.lock'],
  [['yarn.lock'], 'yarn@4.5.0', 'yarn', 'yarn.lock'],
  [['pnpm-lock.yaml'], undefined, 'pnpm', 'pnpm-lock.yaml'],
  [['package.json'], undefined, 'npm', undefined],
  [['package.json'], 'pnpm@9.1.0', 'pnpm', undefined],
];
for (const [files, declared, name, lockfile] of chosen) {
  test(`${files.join(' and ')}${declared === undefined ? '' : ` with ${declared}`} means ${name}`, () => {
    assert.deepEqual(chooseManager(files, declared), { name, lockfile });
  });
}

test('several lockfiles are refused by name, with what to type', () => {
  assert.throws(() => chooseManager(['yarn.lock', 'package-lock.json'], undefined), {
    code: 'invalid',
    message: /package-lock\.json, yarn\.lock.*git rm yarn\.lock/,
  });
});

test('a lockfile of another manager than declared is refused', () => {
  assert.throws(() => chooseManager(['yarn.lock'], 'pnpm@9.1.0'), { message: /pnpm@9\.1\.0.*yarn\.lock/ });
});

test("an app of Bun is installed by Bun's lockfile, and by no other", () => {
  assert.deepEqual(chooseBun(['bun.lock', 'bun.lockb', 'package-lock.json']), { name: 'bun', lockfile: 'bun.lock' });
  assert.deepEqual(chooseBun(['bun.lockb']), { name: 'bun', lockfile: 'bun.lockb' });
  assert.deepEqual(chooseBun(['package.json']), { name: 'bun', lockfile: undefined });
  assert.throws(() => chooseBun(['yarn.lock']), {
    code: 'invalid',
    message: /lockfile is yarn\.lock: run "bun install"/,
  });
});

test("a lockfile tells its manager's version", () => {
  assert.equal(pnpmRangeOf("lockfileVersion: '6.0'\n"), '^8.0.0');
  assert.equal(pnpmRangeOf("lockfileVersion: '9.0'\n"), '^10.0.0');
  assert.equal(pnpmRangeOf('lockfileVersion: 5.4\n'), '^7.0.0');
  assert.equal(isBerryLockfile('# yarn lockfile v1\n\na@1:\n'), false);
  assert.equal(isBerryLockfile('# x\n\n__metadata:\n  version: 8\n'), true);
});
