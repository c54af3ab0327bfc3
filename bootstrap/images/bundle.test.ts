import assert from 'node:assert/strict';
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

test('nothing takes long to make in an image with a program: what it needs of Debian is its parent’s', () => {
  for (const [name, { files = [], packages = [] }] of Object.entries(recipes)) {
    if (files.some(({ type }) => type === 'bundle')) assert.deepEqual(packages, [], name);
  }
});
