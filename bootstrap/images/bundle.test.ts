import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { bundle } from './bundle.ts';
import { recipes } from './recipes.ts';
import { digestOf } from './tag.ts';

test('a program that does not say its version is the same in all of them, unless it is to be told apart', async () => {
  const digest = async (...args: Parameters<typeof bundle>): Promise<string> => digestOf(await bundle(...args));
  const silent = 'layer1/blobstore/main.ts';
  assert.equal(await digest(silent, { version: '9.8.7' }), await digest(silent));
  assert.notEqual(await digest(silent, { version: '9.8.7', prologue: () => '/* apart */\n' }), await digest(silent));
  const saying = 'layer1/controller/main.ts';
  assert.match(Buffer.from(await bundle(saying, { version: '9.8.7' })).toString(), /9\.8\.7/);
});

test('classes that a library tells apart by their names have them', async () => {
  // esbuild renames what occurs twice, or needs a name for itself within.
  const text = Buffer.from(await bundle('layer1/controller/main.ts')).toString();
  assert.match(text, /\.constructor\.name==="Sequence"/);
  assert.match(text, /[ ,;]Sequence=class extends /);
});

test('etcd is called by a program that has no files beside it', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'flynn-bundle-'));
  t.after(() => rm(directory, { recursive: true }));
  const program = join(directory, 'store.mjs');
  await writeFile(program, await bundle('layer0/store/etcd.ts'));
  const call = `const { connectEtcd } = await import(${JSON.stringify(program)});
    const store = connectEtcd({ endpoints: ['http://127.0.0.1:1'] });
    await store.get('a', { timeoutMs: 500 }).catch(({ code }) => console.log(code));
    process.exit(0);`;
  const said = await new Promise<string>((resolve) => {
    const args = ['--input-type=module', '--eval', call];
    execFile(process.execPath, args, { cwd: directory }, (_error, stdout, stderr) => resolve(stdout + stderr));
  });
  assert.equal(said.trim(), 'unavailable');
});

test('nothing takes long to make in an image with a program: what it needs of Debian is its parent’s', () => {
  for (const [name, { files = [], packages = [] }] of Object.entries(recipes)) {
    if (files.some(({ type }) => type === 'bundle')) assert.deepEqual(packages, [], name);
  }
});

test('a program that starts has neither loaded the HTTP of browsers nor given names to what has them', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'flynn-bundle-'));
  t.after(() => rm(directory, { recursive: true }));
  const program = join(directory, 'main.mjs');
  const text = await bundle('layer1/blobstore/main.ts');
  assert.doesNotMatch(Buffer.from(text).toString(), /__name\(/);
  await writeFile(program, text);
  const watch = join(directory, 'watch.mjs');
  await writeFile(
    watch,
    `process.on('exit', () => {
      const has = (name) => process.moduleLoadList.includes('NativeModule ' + name);
      process.stderr.write(JSON.stringify({ http: has('_http_server'), browsers: has('internal/deps/undici/undici') }));
    });`,
  );
  // Without its settings it ends as soon as all is loaded.
  const said = await new Promise<string>((resolve) => {
    execFile(process.execPath, ['--import', watch, program], { env: {} }, (_error, _stdout, stderr) => resolve(stderr));
  });
  const found = JSON.parse(said.slice(said.lastIndexOf('{'))) as { http: boolean; browsers: boolean };
  assert.equal(found.http, true);
  assert.equal(found.browsers, false);
});
