import assert from 'node:assert/strict';
import { cp, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { test } from 'node:test';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import { buildWeb } from './web-build.ts';

const root = resolve(import.meta.dirname, '../..');

test('the pages are built to files whose names say what is in them, wherever the repository is', async (t) => {
  const files = new Map((await buildWeb()).map(({ path, content }) => [path, Buffer.from(content)]));
  const page = files.get('index.html')?.toString() ?? '';
  const referred = [...page.matchAll(/"\/(assets\/main-[A-Z0-9]+\.(?:js|css))"/g)].map(([, path = '']) => path);
  assert.equal(referred.length, 2, page);
  for (const path of referred) {
    const content = files.get(path);
    assert.ok(content !== undefined && content.length > 0, path);
    assert.ok(gunzipSync(files.get(`${path}.gz`) ?? '').equals(content));
    assert.ok(brotliDecompressSync(files.get(`${path}.br`) ?? '').equals(content));
  }
  for (const path of files.keys()) assert.match(path, /^(index\.html|assets\/[\w-]+-[A-Z0-9]{8}\.\w+(\.br|\.gz)?)$/);
  // The policy that they are served with allows nothing inline.
  assert.doesNotMatch(page, /<script(?![^>]*\bsrc=)|<style|\son\w+=|\sstyle=|javascript:/i);
  const script = [...files].filter(([path]) => path.endsWith('.js')).map(([, content]) => content.toString());
  assert.ok(script.every((text) => !text.includes('sourceMappingURL') && !text.includes(root)));

  const elsewhere = await mkdtemp(join(tmpdir(), 'flynn-elsewhere-'));
  t.after(() => rm(elsewhere, { recursive: true }));
  const packages = ['@flynn', '@xterm', 'eventsource-parser', 'preact'].map((name) => `node_modules/${name}`);
  const own = ['layer0/kit', 'layer1/appliances', 'layer1/controller', 'layer1/dashboard'];
  for (const source of [...own, 'package.json', ...packages]) {
    // Links of the repository's own packages lead to where they are from there.
    await cp(join(root, source), join(elsewhere, source), { recursive: true, verbatimSymlinks: true });
  }
  const again = await buildWeb(elsewhere);
  assert.deepEqual(
    again.map(({ path }) => path),
    [...files.keys()],
  );
  assert.ok(again.every(({ path, content }) => files.get(path)?.equals(content)));
});
