import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { DebianToolchain } from './toolchain.ts';

test('packages of other languages of an app stay in the cache, and those that no build of late used do not', async () => {
  await using b = await bench({});
  const dir = join(b.layout.cacheDir, 'debian');
  const rust = { name: 'rustc', version: '1.85', file: 'rustc_1.85_amd64.deb', sha256: '' };
  const index = { checkedAtMs: 0, names: { 'python3.': ['python3.13'] }, resolved: { 'rustc cargo': [rust] } };
  await write(dir, { 'index.json': JSON.stringify(index), [rust.file]: '', 'rustc_1.84_amd64.deb': '' });
  const debian = new DebianToolchain(b.context());
  assert.deepEqual(await debian.versions('python3.', /^python(3\.\d+)$/), ['3.13']);
  await debian.tidy();
  assert.deepEqual((await readdir(dir)).sort(), ['index.json', rust.file]);
  assert.equal(debian.isChanged, true);
});
