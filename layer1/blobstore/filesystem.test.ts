import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import * as fc from 'fast-check';
import { openFilesystem } from './filesystem.ts';
import { checkName } from './storage.ts';

async function setUp(t: TestContext) {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-blobs-'));
  t.after(() => rm(dir, { recursive: true }));
  return { dir, storage: await openFilesystem(dir, { nowMs: Date.now() }) };
}

async function* chunks(...parts: (string | Buffer)[]): AsyncGenerator<Uint8Array> {
  for (const part of parts) yield Buffer.from(part);
}

function digestOf(data: string): string {
  return `sha256:${createHash('sha256').update(data).digest('hex')}`;
}

async function textOf(body: AsyncIterable<Uint8Array>): Promise<string> {
  const parts: Uint8Array[] = [];
  for await (const part of body) parts.push(part);
  return Buffer.concat(parts).toString();
}

describe('the filesystem driver', () => {
  test('gives back what was put, under the digest of its bytes', async (t) => {
    const { storage } = await setUp(t);
    const blob = await storage.put(chunks('hello ', 'world'), {});
    assert.deepEqual(blob, { digest: digestOf('hello world'), sizeBytes: 11 });
    const { sizeBytes, body } = await storage.open(blob.digest);
    assert.equal(sizeBytes, 11);
    assert.equal(await textOf(body), 'hello world');
    assert.deepEqual(await storage.stat(blob.digest), blob);
  });

  test('keeps an empty blob', async (t) => {
    const { storage } = await setUp(t);
    const blob = await storage.put(chunks(), {});
    assert.equal(await textOf((await storage.open(blob.digest)).body), '');
  });

  test('refuses bytes with another digest and leaves nothing behind', async (t) => {
    const { dir, storage } = await setUp(t);
    const wrong = digestOf('other');
    await assert.rejects(storage.put(chunks('hello'), { digest: wrong }), (e) => hasCode(e, 'invalid'));
    await assert.rejects(storage.stat(digestOf('hello')), (e) => hasCode(e, 'not_found'));
    assert.deepEqual(await readdir(join(dir, 'tmp')), []);
  });

  test('leaves nothing behind when the upload breaks off', async (t) => {
    const { dir, storage } = await setUp(t);
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('half');
      throw new Error('gone');
    }
    await assert.rejects(storage.put(broken(), {}), /gone/);
    assert.deepEqual(await readdir(join(dir, 'tmp')), []);
    assert.deepEqual(await readdir(join(dir, 'blobs', 'sha256')), []);
  });

  test('takes the same bytes from many at once', async (t) => {
    const { dir, storage } = await setUp(t);
    const data = Buffer.alloc(300_000, 'x').toString();
    const blobs = await Promise.all(Array.from({ length: 10 }, () => storage.put(chunks(data, data), {})));
    assert.equal(new Set(blobs.map((blob) => blob.digest)).size, 1);
    assert.equal((await textOf((await storage.open(blobs[0]?.digest ?? '')).body)).length, 600_000);
    assert.deepEqual(await readdir(join(dir, 'tmp')), []);
  });

  test('goes on reading a blob that is removed meanwhile', async (t) => {
    const { storage } = await setUp(t);
    const blob = await storage.put(chunks('still here'), {});
    const { body } = await storage.open(blob.digest);
    await storage.remove(blob.digest);
    await storage.remove(blob.digest);
    assert.equal(await textOf(body), 'still here');
    await assert.rejects(storage.open(blob.digest), (e) => hasCode(e, 'not_found'));
  });

  test('points names to blobs, also a name below another', async (t) => {
    const { storage } = await setUp(t);
    const one = await storage.put(chunks('1'), {});
    const two = await storage.put(chunks('2'), {});
    await storage.putName('cache', one.digest);
    await storage.putName('cache/app', one.digest);
    await storage.putName('cache/app', two.digest);
    assert.deepEqual(await storage.getName('cache'), one);
    assert.deepEqual(await storage.getName('cache/app'), two);
    await storage.removeName('cache/app');
    await storage.removeName('cache/app');
    await assert.rejects(storage.getName('cache/app'), (e) => hasCode(e, 'not_found'));
    await storage.remove(one.digest);
    await assert.rejects(storage.getName('cache'), (e) => hasCode(e, 'not_found'));
  });

  test('does not point a name to a blob that is not there', async (t) => {
    const { storage } = await setUp(t);
    await assert.rejects(storage.putName('a', digestOf('x')), (e) => hasCode(e, 'not_found'));
    await assert.rejects(storage.getName('a'), (e) => hasCode(e, 'not_found'));
  });

  test('removes uploads interrupted long ago, and only those', async (t) => {
    const { dir } = await setUp(t);
    await mkdir(join(dir, 'tmp'), { recursive: true });
    await writeFile(join(dir, 'tmp', 'old'), '');
    await writeFile(join(dir, 'tmp', 'new'), '');
    await utimes(join(dir, 'tmp', 'old'), 1000, 1000);
    // Listed, but gone when it is looked at: the process that is being replaced has finished with it.
    await symlink(join(dir, 'nowhere'), join(dir, 'tmp', 'vanished'));
    await openFilesystem(dir, { nowMs: Date.now() });
    assert.deepEqual(await readdir(join(dir, 'tmp')), ['new', 'vanished']);
  });
});

describe('names and digests', () => {
  test('refuse everything that could leave the directory', async (t) => {
    const { storage } = await setUp(t);
    for (const name of ['', '..', '.', 'a/../b', '/a', 'a/', 'a//b', 'a\0', 'a b', 'ä', 'a+b', 'x'.repeat(201)]) {
      await assert.rejects(storage.getName(name), (e) => hasCode(e, 'invalid'), name);
    }
    for (const digest of ['', 'sha256:', '../../etc/passwd', `sha256:${'A'.repeat(64)}`, `sha256:${'a'.repeat(63)}/`]) {
      await assert.rejects(
        async () => storage.open(digest),
        (e) => hasCode(e, 'invalid'),
        digest,
      );
    }
  });

  test('accepted names have no segment a path could climb with', () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom('a', '.', '/', '-', '\\', '\0', '%') }), (name) => {
        try {
          checkName(name);
        } catch (error) {
          assert.ok(hasCode(error, 'invalid'));
          return;
        }
        assert.ok(name.split('/').every((segment) => /^[a.-]+$/.test(segment) && !['.', '..'].includes(segment)));
      }),
    );
  });
});
