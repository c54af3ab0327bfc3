import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { type SiteRoot, usualRoot } from './site-root.ts';
import type { Elsewhere } from './static-rules.ts';

async function rootOf(
  t: TestContext,
  files: readonly string[],
  { isBuilt = true, start }: { isBuilt?: boolean; start?: Elsewhere } = {},
): Promise<SiteRoot> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-site-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  for (const file of files) {
    await mkdir(dirname(join(dir, file)), { recursive: true });
    await writeFile(join(dir, file), '');
  }
  return usualRoot(dir, isBuilt, start);
}

const built: [what: string, files: string[], root: string][] = [
  ['Vite', ['index.html', 'public/icons.svg', 'dist/index.html', 'dist/icons.svg'], 'dist'],
  ['Create React App', ['public/index.html', 'build/index.html'], 'build'],
  ['Next.js that is exported', ['public/next.svg', 'out/index.html'], 'out'],
  ['Nuxt that is generated', ['public/robots.txt', '.output/public/index.html'], '.output/public'],
  ['Gatsby', ['src/pages/index.js', 'public/index.html'], 'public'],
  ['a program beside its pages', ['dist/index.js', 'public/index.html'], 'public'],
];
for (const [what, files, root] of built) {
  test(`of ${what} ${root} is served`, async (t) => {
    assert.deepEqual(await rootOf(t, files), { root, hasStart: true });
  });
}

test('a site that is built elsewhere is not guessed at: where an index.html is, is told', async (t) => {
  const files = ['src/index.html', 'public/robots.txt', 'dist/shop/browser/index.html', 'node_modules/a/index.html'];
  await assert.rejects(rootOf(t, files), {
    code: 'invalid',
    message: /There is one in dist\/shop\/browser\.\n.*\{"root": "dist\/shop\/browser"\}/,
  });
  await assert.rejects(rootOf(t, ['docs/index.md', 'docs/.vitepress/dist/index.html', '.git/index.html']), {
    code: 'invalid',
    message: /There is one in docs\/\.vitepress\/dist\.\n/,
  });
  await assert.rejects(rootOf(t, ['server.js']), { code: 'invalid', message: /Does the build make it\?/ });
});

test('of a site that is built the repository is served only where somebody names it', async (t) => {
  await assert.rejects(rootOf(t, ['index.html', 'src/main.ts', 'www/index.html']), {
    code: 'invalid',
    message: /There is one in www\.\n.*\{"root": "www"\}/,
  });
  await assert.rejects(rootOf(t, ['index.html', 'style.css']), {
    code: 'invalid',
    message: /at the top of the repository, with the sources: they would be served too\.\n.*\{"root": "\."\}/,
  });
  const start = { url: '/en/', status: 302 };
  await assert.rejects(rootOf(t, ['index.html', 'www/index.html'], { start }), { code: 'invalid' });
});

const app: Elsewhere = { file: '/app.html' };
const elsewhere: [files: string[], isBuilt: boolean, start: Elsewhere, root: string][] = [
  [['public/app.html', 'index.html'], false, app, 'public'],
  [['public/a.png', 'dist/index.html', 'app.html'], false, { url: '/en/', status: 302 }, 'public'],
  [['app.html'], false, app, '.'],
  [['public/app.html'], true, app, 'public'],
  [['index.html', 'public/a.png', 'dist/app.html'], true, app, 'dist'],
  [['index.html', 'app.html', 'public/a.png'], true, app, 'public'],
  [['public/a.png', 'dist/en/index.html'], true, { url: '/en/', status: 302 }, 'dist'],
  [['public/en.html', 'dist/server.js'], true, { url: '/en?from=start', status: 302 }, 'public'],
  [['public/a.png', 'dist/server.js'], true, { url: 'https://example.com/', status: 302 }, 'public'],
];
for (const [files, isBuilt, start, root] of elsewhere) {
  test(`where / is answered otherwise, of ${files.join(', ')}${isBuilt ? ', built,' : ''} ${root} is served`, async (t) => {
    assert.deepEqual(await rootOf(t, files, { isBuilt, start }), { root, hasStart: true });
  });
}

test('where / leads to a page that is in none of the folders, it is not found', async (t) => {
  const start = { url: '/en/', status: 302 };
  const files = ['public/a.png', 'dist/shop/browser/en/index.html'];
  assert.deepEqual(await rootOf(t, files, { start }), { root: 'public', hasStart: false });
});

test('a site that nobody builds is where it was always looked for, unless only another folder has a page', async (t) => {
  const plain = { isBuilt: false };
  const both = ['public/index.html', 'dist/index.html', 'build/index.html'];
  assert.deepEqual(await rootOf(t, both, plain), { root: 'public', hasStart: true });
  assert.deepEqual(await rootOf(t, ['index.html', 'public/a.png'], plain), { root: '.', hasStart: true });
  assert.deepEqual(await rootOf(t, ['public/a.png', 'b.txt'], plain), { root: 'public', hasStart: false });
  assert.deepEqual(await rootOf(t, ['a.txt'], plain), { root: '.', hasStart: false });
});
