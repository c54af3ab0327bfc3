import assert from 'node:assert/strict';
import { mkdir, readFile, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { installPackages } from './packages.ts';

/** Downloads what the lockfile names and is not there, and installs all of it. */
const php = `
mkdir -p $COMPOSER_CACHE_DIR vendor
for package in $(cat composer.lock); do
  [ -e $COMPOSER_CACHE_DIR/$package ] || { echo "downloading $package"; echo zip > $COMPOSER_CACHE_DIR/$package; }
  cat patch > vendor/$package
done`;

test('of packages only what is new is downloaded, and all are installed with the files of this source', async () => {
  await using b = await bench({ 'composer.lock': 'a b', patch: 'one' });
  const env = await b.withProgram('php', php);
  await mkdir(join(b.layout.cacheDir, 'vendor'));
  assert.equal(await installPackages(b.context(), env, 'composer'), true);
  assert.deepEqual(await readdir(b.layout.cacheDir), ['composer'], 'what a builder of before kept is gone');
  const before = b.output().length;
  await write(b.layout.appDir, { patch: 'two' });
  assert.equal(await installPackages(b.context(), env, 'composer'), false);
  assert.equal(b.output().slice(before), '');
  assert.equal(await readFile(join(b.layout.appDir, 'vendor/a'), 'utf8'), 'two');
  await write(b.layout.appDir, { 'composer.lock': 'a c' });
  assert.equal(await installPackages(b.context(), env, 'composer'), true);
  assert.match(b.output().slice(before), /^ +downloading c\n$/);
});
