import assert from 'node:assert/strict';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { nothingStarts } from './how-to-start.ts';

async function said(t: TestContext, files: readonly string[], main?: string, buildpack = 'nodejs'): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-starts-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  await writeFile(join(dir, 'package.json'), JSON.stringify({ main }));
  for (const file of files) {
    await mkdir(dirname(join(dir, file)), { recursive: true });
    await writeFile(join(dir, file), '');
  }
  const { code, message } = await nothingStarts(dir, buildpack);
  assert.equal(code, 'invalid');
  assert.match(message, /^Nothing says how to start this app\. /);
  return message;
}

const built: [what: string, files: string[], line: string][] = [
  ['Nuxt', ['.output/server/index.mjs', '.output/public/favicon.ico'], 'web: node .output/server/index.mjs'],
  ['SvelteKit', ['build/index.js', 'build/handler.js'], 'web: node build'],
  ['Astro', ['dist/server/entry.mjs', 'dist/client/index.html'], 'web: HOST=0.0.0.0 node dist/server/entry.mjs'],
  ['React Router', ['build/server/index.js', 'build/client/a.js'], 'web: react-router-serve build/server/index.js'],
  ['Next.js', ['.next/BUILD_ID', '.next/server/app.js'], 'web: next start -p $PORT'],
  ['a compiled program', ['dist/main.js', 'src/main.ts'], 'web: node dist/main.js'],
  ['a program at the top', ['app.js'], 'web: node app.js'],
];
for (const [what, files, line] of built) {
  test(`of ${what} the line that starts it is told`, async (t) => {
    assert.ok((await said(t, files)).includes(`\necho '${line}' > Procfile && git add Procfile`));
  });
}

test('of a site that was built the buildpacks are told that serve it', async (t) => {
  const message = await said(t, ['index.html', 'dist/index.html', 'dist/main.js']);
  assert.match(message, /a site in dist: .*\nprintf 'nodejs\\nstatic\\n' > \.buildpacks && git add \.buildpacks$/);
});

test('of an app of Bun it is Bun that starts or builds it', async (t) => {
  assert.ok((await said(t, ['dist/main.js'], undefined, 'bun')).includes("'web: bun dist/main.js'"));
  assert.match(await said(t, ['dist/index.html'], undefined, 'bun'), /printf 'bun\\nstatic\\n'/);
  assert.match(await said(t, [], undefined, 'bun'), /"web: bun server\.js"/);
});

test('the main file of package.json counts where it is there and can stand in a command line', async (t) => {
  assert.match(await said(t, ['lib/start.mjs', 'index.js'], './lib/start.mjs'), /'web: node lib\/start\.mjs'/);
  assert.match(await said(t, ['index.js'], './lib/none.js'), /'web: node index\.js'/);
  assert.match(await said(t, ["a'b.js"], "a'b.js"), /a Procfile with a line like "web: node server\.js"/);
});

test('of another language nothing is guessed', async (t) => {
  assert.match(await said(t, ['main.js'], undefined, 'deno'), /web: deno run -A server\.ts/);
  assert.match(await said(t, ['dist/index.html'], undefined, 'go'), /as "web: COMMAND": .* \$PORT\.$/);
});
