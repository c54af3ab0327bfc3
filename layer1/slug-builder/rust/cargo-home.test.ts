import assert from 'node:assert/strict';
import { readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { writeCargoConfig } from './cargo-home.ts';

test('a mirror stands for crates.io where Cargo asks last, and what a build before wrote there is gone', async () => {
  await using b = await bench({});
  const home = join(b.layout.cacheDir, 'cargo');
  await write(home, { config: 'evil', 'credentials.toml': '', 'registry/x': '' });
  await writeCargoConfig(home, { CARGO_MIRROR_URL: 'sparse+https://crates.example.com/' });
  assert.match(
    await readFile(join(home, 'config.toml'), 'utf8'),
    /\[source\.crates-io\]\nreplace-with = "flynn-mirror"[^]*index = "sparse\+https:\/\/crates\.example\.com\/"/,
  );
  assert.deepEqual((await readdir(home)).sort(), ['config.toml', 'registry']);
  await writeCargoConfig(home, {});
  assert.deepEqual(await readdir(home), ['registry']);
});
