import assert from 'node:assert/strict';
import { mkdir, readdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { Toolchain, findImageNpm } from './toolchain.ts';

test('what another buildpack of the app downloaded stays in the cache, and what none of them uses any more goes', async () => {
  await using b = await bench({});
  const dir = join(b.layout.cacheDir, 'toolchains');
  await mkdir(dir);
  const context = { ...b.context(), nowMs: 1 };
  const npm = await findImageNpm(context.baseEnv['PATH'] ?? '');
  // Each is resolved from a list in the cache, by which it is used: nothing is asked for.
  const build = async (by: string, packages: readonly string[]): Promise<boolean> => {
    const toolchain = new Toolchain(context, npm, by);
    for (const name of packages) await toolchain.resolve(name, name, '*');
    await toolchain.tidy();
    return toolchain.isChanged;
  };
  const list = (name: string) =>
    writeFile(join(dir, `versions-${name}.json`), JSON.stringify({ checkedAtMs: 0, versions: ['1.0.0'] }));
  const lists = async () =>
    (await readdir(dir))
      .filter((name) => name.startsWith('versions-'))
      .map((name) => name.slice(9, -5))
      .sort();
  await list('pnpm');
  await list('left');
  assert.equal(await build('nodejs', ['pnpm']), true);
  await list('deno');
  assert.equal(await build('deno', ['deno']), true);
  assert.deepEqual(await lists(), ['deno', 'pnpm']);
  assert.deepEqual([await build('nodejs', ['pnpm']), await build('deno', ['deno'])], [false, false]);
  assert.deepEqual(await lists(), ['deno', 'pnpm'], 'the next build has both');
  await list('yarn');
  assert.equal(await build('nodejs', ['yarn']), true);
  assert.deepEqual(await lists(), ['deno', 'yarn']);
});
