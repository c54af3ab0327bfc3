import assert from 'node:assert/strict';
import { readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { installGems } from './gems.ts';

/** Installs what the lockfile names and is not there, removes what it does not name, and says what it did. */
const bundle = `
gems=vendor/bundle/gems
named=$(sed -n 's/^    \\([a-z]*\\) (.*/\\1/p' Gemfile.lock)
case $1 in
install) mkdir -p $gems; for gem in $named; do [ -e $gems/$gem ] || { echo $gem >> ../installed; echo x > $gems/$gem; }; done;;
clean) for path in $gems/*; do echo $named | grep -qw $(basename $path) || rm $path; done;;
esac`;

test('of gems of the build before only what changed is installed, and what is named no more is gone', async () => {
  await using b = await bench({});
  const env = await b.withProgram('bundle', bundle);
  const push = async (gems: string[], more: { remote?: string; runtime?: string } = {}) => {
    const specs = gems.map((name) => `    ${name} (1.0)\n`).join('');
    const lock = `GEM\n  remote: ${more.remote ?? 'https://rubygems.example/'}\n  specs:\n${specs}\nDEPENDENCIES\n  a\n`;
    await rm(b.layout.appDir, { recursive: true });
    await write(b.layout.appDir, { 'Gemfile.lock': lock });
    await rm(join(b.dir, 'installed'), { force: true });
    const isKept = await installGems({ context: b.context(), env, lock, runtime: more.runtime ?? 'ruby-1' });
    const installed = await readFile(join(b.dir, 'installed'), 'utf8').catch(() => '');
    return [
      installed.trim().split('\n').join(' '),
      (await readdir(join(b.layout.appDir, 'vendor/bundle/gems'))).join(' '),
      isKept,
    ];
  };
  assert.deepEqual(await push(['a', 'b']), ['a b', 'a b', true]);
  assert.deepEqual(await push(['a', 'b']), ['', 'a b', false]);
  assert.deepEqual(await push(['a', 'c']), ['c', 'a c', true]);
  assert.deepEqual(await push(['a', 'c']), ['', 'a c', false]);
  assert.deepEqual(await push(['a'], { runtime: 'ruby-2' }), ['a', 'a', true], 'compiled for another Ruby');
  assert.deepEqual(await push(['a'], { remote: 'https://own.example/' }), ['a', 'a', true], 'of another source');
});
