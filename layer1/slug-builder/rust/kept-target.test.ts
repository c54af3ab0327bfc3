import assert from 'node:assert/strict';
import { readdir, stat, utimes } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { exists } from '../nodejs/toolchain.ts';
import { prepareTarget, tidyTarget } from './kept-target.ts';

const nowMs = Date.UTC(2026, 0, 2);

test('what is the app’s own is newer than all that is kept, whenever it was committed; crates it brings along are older', async () => {
  await using b = await bench({
    'Cargo.toml': '',
    'src/main.rs': '',
    'vendor/log/.cargo-checksum.json': '{}',
    'vendor/log/src/lib.rs': '',
  });
  const { appDir, cacheDir } = b.layout;
  // Of a branch that was put back.
  await utimes(join(appDir, 'src/main.rs'), 1, 1);
  await prepareTarget(cacheDir, appDir, nowMs);
  const timeOf = async (path: string): Promise<number> => (await stat(join(appDir, path))).mtimeMs;
  for (const path of ['src', 'src/main.rs', 'Cargo.toml']) assert.equal(await timeOf(path), nowMs);
  assert.equal(await timeOf('vendor/log/src/lib.rs'), 0);
});

test('what is kept is good for as long as the crates that the app brings along are the same', async () => {
  await using b = await bench({
    'vendor/log/.cargo-checksum.json': '{}',
    'vendor/log/src/lib.rs': 'one',
    'src/main.rs': '',
  });
  const { appDir, cacheDir } = b.layout;
  const made = join(cacheDir, 'target/release/deps/liblog-0123456789abcdef.rlib');
  const isKept = async (changed: Record<string, string>): Promise<boolean> => {
    await write(cacheDir, { 'target/release/deps/liblog-0123456789abcdef.rlib': '' });
    await write(appDir, changed);
    await prepareTarget(cacheDir, appDir, nowMs);
    return exists(made);
  };
  assert.equal(await isKept({}), false);
  assert.equal(await isKept({ 'src/main.rs': 'another' }), true);
  assert.equal(await isKept({ 'vendor/log/src/lib.rs': 'two' }), false);
  assert.equal(await isKept({}), true);
});

test('of what was compiled nothing stays of the app, and nothing that no build needs any more', async () => {
  await using b = await bench({});
  const [other, own] = ['0123456789abcdef', 'ffffffffffffffff'];
  const files = (folder: string): Record<string, string> => ({
    [`${folder}/.fingerprint/log-${other}/lib-log`]: '',
    [`${folder}/.fingerprint/shop-${own}/bin-shop`]: '',
    [`${folder}/build/ring-${other}/out/x`]: '',
    [`${folder}/build/shop-${own}/output`]: '',
    [`${folder}/deps/liblog-${other}.rlib`]: '',
    [`${folder}/deps/log-${other}.d`]: '',
    [`${folder}/deps/shop-${own}`]: '',
    [`${folder}/incremental/shop-1/x`]: '',
    [`${folder}/shop`]: '',
  });
  const target = b.layout.cacheDir;
  await write(target, { '.rustc_info.json': '{}', ...files('release'), ...files('aarch64-unknown-linux-gnu/release') });
  await tidyTarget(target, new Set([other]));
  const left = (await readdir(target, { recursive: true, withFileTypes: true })).filter((entry) => entry.isFile());
  assert.deepEqual(
    left.map(({ name }) => name).sort(),
    [
      '.rustc_info.json',
      ...['lib-log', 'x', `liblog-${other}.rlib`, `log-${other}.d`].flatMap((name) => [name, name]),
    ].sort(),
  );
  await tidyTarget(join(target, 'none'), new Set());
});
