import assert from 'node:assert/strict';
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from './compile-fixture.ts';
import { KeptFolder } from './kept-folder.ts';

test('a folder that is kept is good whatever becomes of the build, and is back under its key alone', async (t) => {
  await using b = await bench({ 'vendor/a': 'kept' });
  let told = 0;
  const context = {
    layout: b.layout,
    baseEnv: { PATH: process.env['PATH'] ?? '' },
    signal: t.signal,
    keepCache: () => void (told += 1),
  };
  const vendor = join(b.layout.appDir, 'vendor');
  const kept = new KeptFolder(context, 'vendor', vendor);
  assert.equal(await kept.restore('one'), false);
  assert.equal(told, 0);
  await kept.keep('one');
  assert.equal(told, 1);
  await write(b.layout.appDir, { 'vendor/a': 'written into' });
  assert.equal(await kept.restore('another'), false);
  assert.equal(await kept.restore('one'), true);
  assert.equal(await readFile(join(vendor, 'a'), 'utf8'), 'kept');
  await rm(vendor, { recursive: true });
  await kept.keep('two');
  assert.equal(await kept.restore('one'), false);
});
