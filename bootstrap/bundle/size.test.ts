import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { mkdir, mkdtempDisposable, readFile, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import { hasCode } from '@flynn/kit/errors';
import { sizeOfBundle } from './size.ts';

async function pack(folder: string, more: { imagesBytes?: number; features?: string[] }): Promise<string> {
  const source = join(folder, 'flynn');
  await mkdir(source, { recursive: true });
  const bundle = { version: '1.2.3', platform: 'linux-x64', madeAt: 'now', images: { a: 'a:1', b: 'b:1' }, ...more };
  await writeFile(join(source, 'bundle.json'), JSON.stringify(bundle));
  await writeFile(join(source, 'zeros'), Buffer.alloc(1_000_000));
  const file = join(folder, 'bundle.tar.gz');
  execFileSync('tar', ['-czf', file, '-C', folder, 'flynn/bundle.json', 'flynn/zeros']);
  return file;
}

test('a bundle says what it needs: itself, unpacked, and its images', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-size-'));
  const file = await pack(folder.path, { imagesBytes: 5_000, features: ['wireguard'] });
  const { fileBytes, unpackedBytes, ...size } = await sizeOfBundle(file);
  assert.deepEqual(size, {
    version: '1.2.3',
    features: ['wireguard'],
    images: ['a:1', 'b:1'],
    imagesBytes: 5_000,
  });
  assert.equal(fileBytes, (await stat(file)).size);
  assert.equal(unpackedBytes, gunzipSync(await readFile(file)).length);
});

test('of one of old, which does not say how large its images are, that is estimated, and it knows nothing that came later; what is none is refused', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-size-'));
  const file = await pack(folder.path, {});
  const { imagesBytes, features } = await sizeOfBundle(file);
  assert.deepEqual([imagesBytes, features], [3 * (await stat(file)).size, []]);
  await writeFile(file, 'something else');
  await assert.rejects(
    sizeOfBundle(file),
    (error) => hasCode(error, 'invalid') && /is no bundle of flynn/.test(error.message),
  );
  await assert.rejects(sizeOfBundle(join(folder.path, 'none')), (error) => hasCode(error, 'invalid'));
});
