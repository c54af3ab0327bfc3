import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { bundle as bundleProgram } from '../images/bundle.ts';
import { imageNames } from '../images/recipes.ts';
import { bundleFile, bundleSchema, root } from '../origin.ts';
import { sourcesOf, versionIn } from './contents.ts';

const bundle = bundleSchema.parse({
  version: '9.8.7',
  platform: 'linux-x64',
  madeAt: '2026-01-01T00:00:00Z',
  images: Object.fromEntries(imageNames.map((name) => [name, `flynn/${name}:1`])),
});

test('what a bundle takes from the repository is there, each thing in one place', () => {
  const sources = sourcesOf(bundle);
  for (const source of sources) {
    if (source.type === 'repository') assert.ok(existsSync(join(root, source.source)), source.source);
    if (source.type === 'bundle') assert.ok(existsSync(join(root, source.entry)), source.entry);
  }
  const paths = sources.map(({ path }) => path);
  assert.equal(new Set(paths).size, paths.length);
});

test('a version is three numbers, perhaps with what it leads up to', () => {
  for (const text of ['0.1.0', '10.20.30', '1.0.0-rc.1', '1.0.0-a1b2']) assert.equal(versionIn(text), text);
  for (const text of ['', '1', '1.0', 'v1.0.0', '1.0.0-', '1.0.0/..', '1.0.0-RC', '../1.0.0'])
    assert.equal(versionIn(text), undefined);
});

test(
  'its programs run where there is no repository, and say the version that they were made as',
  { timeout: 120_000 },
  async () => {
    const folder = await mkdtemp(join(tmpdir(), 'flynn-bundle-'));
    try {
      await mkdir(join(folder, 'programs'));
      await writeFile(join(folder, bundleFile), JSON.stringify(bundle));
      await symlink(join(root, 'node_modules'), join(folder, 'node_modules'));
      const run = async (name: string, entry: string, ...args: string[]): Promise<string> => {
        const file = join(folder, 'programs', name);
        await writeFile(file, await bundleProgram(entry, bundle.version));
        return execFileSync(process.execPath, [file, ...args], { encoding: 'utf8', cwd: folder });
      };
      assert.match(await run('flynn-host.mjs', 'bootstrap/flynn-host.ts', 'help', 'bootstrap'), /--min-hosts/);
      assert.equal(await run('flynn.mjs', 'cli/main.ts', '--version'), '9.8.7\n');
    } finally {
      await rm(folder, { recursive: true });
    }
  },
);
