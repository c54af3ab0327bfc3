import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import type { Layout } from '../buildpack.ts';
import { createOutput } from '../output.ts';
import { Downloads, apartFromStore } from './downloads.ts';
import { exists } from './toolchain.ts';

async function bench(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-downloads-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  const layout: Layout = { appDir: dir, cacheDir: join(dir, 'cache'), envDir: dir, runtimeDir: dir, scratchDir: dir };
  let said = '';
  const out = createOutput((text) => (said += text));
  const root = new Downloads({ layout, out }).dir;
  const put = async (files: Record<string, number>): Promise<void> => {
    for (const [path, bytes] of Object.entries(files)) {
      await mkdir(dirname(join(root, path)), { recursive: true });
      await writeFile(join(root, path), '');
      await truncate(join(root, path), bytes);
    }
  };
  return {
    has: (path: string) => exists(join(root, path)),
    said: () => said,
    /** What else the build does. */
    put,
    /** An install that downloads these, of so many bytes; answers whether there is something new to store. */
    install: async (files: Record<string, number>): Promise<boolean> => {
      const downloads = new Downloads({ layout, out });
      await downloads.begin();
      await put(files);
      return downloads.end();
    },
  };
}

test('what was downloaded is kept, and stored again only when there is something new', async (t) => {
  const { install, has } = await bench(t);
  assert.equal(await install({}), false);
  assert.equal(await install({ 'npm/a': 100, 'npm/_npx/old/package.json': 1 }), true);
  assert.equal(await install({ 'npm/_logs/2026-debug-0.log': 10, 'npm/_npx/new/package.json': 1 }), false);
  assert.equal(await has('npm/_npx'), false, 'npx fetches the newest each time');
  assert.equal(await install({ 'npm/b': 50 }), true);
  assert.equal(await has('npm/a'), true);
});

test('with twice what was needed at first it begins anew', async (t) => {
  const { install, has } = await bench(t);
  await install({ 'npm/a': 100 });
  await install({ 'npm/b': 100 });
  assert.equal(await has('npm/a'), true);
  await install({ 'npm/c': 100 });
  assert.equal(await install({ 'npm/c': 100 }), true);
  assert.deepEqual([await has('npm/a'), await has('npm/c')], [false, true]);
});

test('what a build downloads after its install counts for what was needed at first', async (t) => {
  const { install, put, has } = await bench(t);
  assert.equal(await install({ 'data/a': 100 }), true);
  await put({ 'data/of-the-build-script': 300 });
  assert.equal(await install({ 'data/a': 100 }), false);
  assert.equal(await has('data/of-the-build-script'), true);
  await put({ 'data/of-another-version': 500 });
  assert.equal(await install({ 'data/a': 100 }), true, 'more than twice all that was there');
  assert.equal(await has('data/of-the-build-script'), false);
});

test('more than is worth it is not kept, and the build says so', async (t) => {
  const { install, has, said } = await bench(t);
  assert.equal(await install({ 'npm/a': 513 * 1024 ** 2 }), false);
  assert.equal(await has('npm/a'), false);
  assert.match(said(), /^ {7}The packages downloaded are not kept for the next build: 513\.0M$/m);
});

test('a store that is kept has no files in common with node_modules, nor what install scripts made', () => {
  const of = (name: string): Record<string, string> =>
    apartFromStore([
      { name: 'node-24.1.0', dir: '' },
      { name, dir: '' },
    ]);
  assert.deepEqual(of('pnpm-10.34.9'), {
    npm_config_package_import_method: 'clone-or-copy',
    npm_config_side_effects_cache: 'false',
  });
  assert.deepEqual(of('pnpm-12.21.0'), {
    pnpm_config_package_import_method: 'clone-or-copy',
    pnpm_config_side_effects_cache: 'false',
  });
  assert.deepEqual(of('yarn-1.22.22'), {});
});
