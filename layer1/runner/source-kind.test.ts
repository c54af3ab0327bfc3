import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { pack } from 'tar-stream';
import { sourceKindOf } from './source-kind.ts';

const { signal } = new AbortController();

async function kindOf(files: Record<string, string>) {
  const archive = pack();
  for (const [name, content] of Object.entries(files)) archive.entry({ name }, content);
  archive.finalize();
  const bytes = await buffer(archive);
  return sourceKindOf(() => Promise.resolve(Readable.from([bytes], { objectMode: false })), signal);
}

test('a Dockerfile at the root counts, unless somebody chose buildpacks', async () => {
  const Dockerfile = 'FROM x';
  assert.equal(await kindOf({ Dockerfile, 'package.json': '{}' }), 'dockerfile');
  assert.equal(await kindOf({ Dockerfile, 'app.json': '{}' }), 'dockerfile');
  assert.equal(await kindOf({ Dockerfile, 'app.json': 'not JSON' }), 'dockerfile', 'the build tells of it');
  assert.equal(await kindOf({ Dockerfile, '.buildpacks': 'nodejs\n' }), 'slug');
  assert.equal(await kindOf({ Dockerfile, 'app.json': '{"buildpacks": [{"url": "nodejs"}]}' }), 'slug');
  assert.equal(await kindOf({ 'docker/Dockerfile': 'FROM x' }), 'slug');
});

test('a source that is not there or no archive is the build’s to tell, a store that is away is asked again', async () => {
  const missing = () => Promise.reject(new FlynnError('not_found', 'no such blob'));
  assert.equal(await sourceKindOf(missing, signal), 'slug');
  const text = () => Promise.resolve(Readable.from([Buffer.alloc(2_000, 'x')], { objectMode: false }));
  assert.equal(await sourceKindOf(text, signal), 'slug');
  const away = () => Promise.reject(new FlynnError('unavailable', 'the blob store is away'));
  await assert.rejects(sourceKindOf(away, signal), (error) => hasCode(error, 'unavailable'));
});
