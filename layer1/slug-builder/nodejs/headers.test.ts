import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { headerSettings } from './headers.ts';

test('node-gyp is told of the headers in the words it knows', async (t) => {
  const npmLib = await mkdtemp(join(tmpdir(), 'flynn-npm-'));
  t.after(() => rm(npmLib, { recursive: true, force: true }));
  const namesFor = async (program: 'npm' | 'pnpm', gyp?: string) => {
    const dir = join(npmLib, 'node_modules/node-gyp');
    await rm(dir, { recursive: true, force: true });
    await mkdir(dir, { recursive: true });
    if (gyp !== undefined) await writeFile(join(dir, 'package.json'), JSON.stringify({ version: gyp }));
    return Object.keys(await headerSettings({ includeDir: '/headers', program, npmLib }));
  };
  const both = ['npm_package_config_node_gyp_nodedir', 'npm_config_nodedir'];
  assert.deepEqual(await namesFor('npm', '12.4.0'), both.slice(0, 1));
  assert.deepEqual(await namesFor('npm', '11.3.0'), both);
  assert.deepEqual(await namesFor('npm'), both);
  assert.deepEqual(await namesFor('pnpm', '12.4.0'), both);
  assert.deepEqual(await headerSettings({ includeDir: undefined, program: 'npm', npmLib }), {});
});
