/** npm without a registry: the packages are archives in the repository. */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cp, readFile, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { bench, write } from '../compile-fixture.ts';

type Bench = Awaited<ReturnType<typeof bench>>;

/** An app whose one dependency is a package of these files; each build begins with the app as it is in the repository. */
async function pushes(b: Bench, packaged: Record<string, string>, scripts: Record<string, string>) {
  const repository = join(b.dir, 'repository');
  await write(join(b.dir, 'dep/package'), packaged);
  await write(repository, {
    'package.json': JSON.stringify({
      name: 'x',
      scripts: { start: 'node server.js', ...scripts },
      dependencies: { dep: 'file:dep.tgz' },
    }),
    'package-lock.json': JSON.stringify({
      name: 'x',
      lockfileVersion: 3,
      packages: {
        '': { name: 'x', dependencies: { dep: 'file:dep.tgz' } },
        'node_modules/dep': { version: '1.0.0', resolved: 'file:dep.tgz', hasInstallScript: true },
      },
    }),
  });
  execFileSync('tar', ['-czf', join(repository, 'dep.tgz'), '-C', join(b.dir, 'dep'), 'package']);
  return async (files: Record<string, string> = {}): Promise<void> => {
    await rm(b.layout.appDir, { recursive: true });
    await cp(repository, b.layout.appDir, { recursive: true });
    await write(b.layout.appDir, files);
    await b.compile();
  };
}

test('install scripts of packages run in each build: they see the app as it is, and write into its home', async () => {
  await using b = await bench({});
  const postinstall = 'mkdir -p $HOME/.cache && touch $HOME/.cache/browser && cp $INIT_CWD/schema generated';
  const manifest = JSON.stringify({ name: 'dep', version: '1.0.0', scripts: { postinstall } });
  const push = await pushes(b, { 'package.json': manifest }, {});
  for (const schema of ['first', 'second']) {
    await push({ schema });
    assert.deepEqual(await readdir(join(b.layout.appDir, '.cache')), ['browser'], schema);
    assert.equal(await readFile(join(b.layout.appDir, 'node_modules/dep/generated'), 'utf8'), schema);
  }
});

test('what an app does to its packages is done once to each build’s own', async () => {
  await using b = await bench({});
  const index = 'node_modules/dep/index.js';
  const patch = `--- a/${index}\n+++ b/${index}\n@@ -1,3 +1,3 @@\n one\n-two\n+TWO\n three\n`;
  const push = await pushes(
    b,
    { 'package.json': JSON.stringify({ name: 'dep', version: '1.0.0' }), 'index.js': 'one\ntwo\nthree\n' },
    { postinstall: 'patch -p1 < dep.patch', build: `echo four >> ${index}` },
  );
  for (const build of ['first', 'second']) {
    await push({ 'dep.patch': patch });
    assert.equal(await readFile(join(b.layout.appDir, index), 'utf8'), 'one\nTWO\nthree\nfour\n', build);
  }
});
