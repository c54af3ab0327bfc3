import assert from 'node:assert/strict';
import { mkdir, readFile, readdir, symlink } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';
import { keepingBuilt } from './built-packages.ts';

test('what was made in packages is there after another install, and only in those that it brings', async () => {
  const manifest = (version: string): string => JSON.stringify({ version });
  await using b = await bench({
    'node_modules/kept/package.json': manifest('1'),
    'node_modules/kept/built.node': 'made',
    'node_modules/kept/node_modules/gone/package.json': manifest('1'),
    'node_modules/@scope/deep/package.json': manifest('1'),
    'node_modules/@scope/deep/node_modules/nested/package.json': manifest('1'),
    'node_modules/@scope/deep/node_modules/nested/built.node': 'made',
    'node_modules/other/package.json': manifest('1'),
    'node_modules/other/built.node': 'made',
    'node_modules/development/package.json': manifest('1'),
    'node_modules/.prisma/client.js': 'made',
    'node_modules/.cache/x': 'made',
    'packages/web/node_modules/.bun/a@1/node_modules/a/package.json': manifest('1'),
    'packages/web/node_modules/.bun/a@1/node_modules/a/built.node': 'made',
    'packages/web/node_modules/.bun/b@1/node_modules/b/package.json': manifest('1'),
  });
  const { appDir } = b.layout;
  await keepingBuilt(appDir, async () => {
    assert.deepEqual((await readdir(appDir)).toSorted(), ['node_modules-built', 'packages']);
    await write(appDir, {
      'node_modules/kept/package.json': manifest('1'),
      'node_modules/@scope/deep/package.json': manifest('1'),
      'node_modules/@scope/deep/node_modules/nested/package.json': manifest('1'),
      'node_modules/other/package.json': manifest('2'),
      'packages/web/node_modules/.bun/a@1/node_modules/a/package.json': manifest('1'),
    });
    await mkdir(join(appDir, 'node_modules/.bin'));
    await symlink('.bun/a@1/node_modules/a', join(appDir, 'packages/web/node_modules/a'));
  });
  const made = (path: string): Promise<string> =>
    readFile(join(appDir, path, 'built.node'), 'utf8').catch(() => 'none');
  assert.equal(await made('node_modules/kept'), 'made');
  assert.equal(await made('node_modules/@scope/deep/node_modules/nested'), 'made');
  assert.equal(
    await made('node_modules/other'),
    'none',
    'another version is not mixed with what was made for this one',
  );
  assert.equal(await made('packages/web/node_modules/a'), 'made');
  assert.deepEqual((await readdir(join(appDir, 'node_modules'))).toSorted(), [
    '.bin',
    '.prisma',
    '@scope',
    'kept',
    'other',
  ]);
  assert.deepEqual(await readdir(join(appDir, 'node_modules/kept')), ['built.node', 'package.json']);
  assert.deepEqual(await readdir(join(appDir, 'packages/web/node_modules/.bun')), ['a@1']);
  assert.deepEqual(await readdir(join(appDir, 'packages/web')), ['node_modules']);
});
