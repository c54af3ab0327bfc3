/** What every Storage has to keep to, whatever is behind it. For tests. */
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import type { Storage } from './storage.ts';
import { chunks, digestOf, textOf } from './testing.ts';

/** `age` makes a blob one that was last used so long ago. */
export type StorageSubject = { storage: Storage; age: (digest: string, ms: number) => Promise<void> };

const hourMs = 3_600_000;

export function describeStorage(name: string, open: (t: TestContext) => Promise<StorageSubject>): void {
  const fails = (promise: Promise<unknown>, code: ErrorCode) =>
    assert.rejects(promise, (error) => hasCode(error, code));

  describe(name, () => {
    test('gives back what was put, under the digest of its bytes', async (t) => {
      const { storage } = await open(t);
      const blob = await storage.put(chunks('hello ', 'world'), {});
      assert.deepEqual(blob, { digest: digestOf('hello world'), sizeBytes: 11 });
      const { sizeBytes, body } = await storage.open(blob.digest);
      assert.equal(sizeBytes, 11);
      assert.equal(await textOf(body), 'hello world');
      assert.deepEqual(await storage.stat(blob.digest), blob);
      assert.deepEqual(await storage.put(chunks('hello world'), { digest: blob.digest }), blob);
    });

    test('gives the bytes after the first few, and none from beyond the end', async (t) => {
      const { storage } = await open(t);
      const { digest } = await storage.put(chunks('precious'), {});
      const { sizeBytes, body } = await storage.open(digest, { from: 3 });
      assert.equal(sizeBytes, 8);
      assert.equal(await textOf(body), 'cious');
      assert.equal(await textOf((await storage.open(digest, { from: 8 })).body), '');
      await fails(storage.open(digest, { from: 9 }), 'invalid');
    });

    test('keeps an empty blob', async (t) => {
      const { storage } = await open(t);
      const blob = await storage.put(chunks(), {});
      assert.equal(await textOf((await storage.open(blob.digest)).body), '');
    });

    test('refuses bytes with another digest', async (t) => {
      const { storage } = await open(t);
      await fails(storage.put(chunks('hello'), { digest: digestOf('other') }), 'invalid');
      await fails(storage.stat(digestOf('other')), 'not_found');
      await fails(storage.open(digestOf('other')), 'not_found');
    });

    test('an upload that breaks off leaves no blob', async (t) => {
      const { storage } = await open(t);
      async function* broken(): AsyncGenerator<Uint8Array> {
        yield Buffer.from('half');
        throw new Error('gone');
      }
      await assert.rejects(storage.put(broken(), {}), /gone/);
      await fails(storage.stat(digestOf('half')), 'not_found');
      assert.deepEqual(await storage.list({ after: '', limit: 10 }), []);
    });

    test('takes the same bytes from many at once', async (t) => {
      const { storage } = await open(t);
      const data = Buffer.alloc(300_000, 'x').toString();
      const blobs = await Promise.all(Array.from({ length: 10 }, () => storage.put(chunks(data, data), {})));
      assert.equal(new Set(blobs.map((blob) => blob.digest)).size, 1);
      assert.equal((await textOf((await storage.open(blobs[0]?.digest ?? '')).body)).length, 600_000);
    });

    test('goes on reading a blob that is removed meanwhile', async (t) => {
      const { storage } = await open(t);
      const blob = await storage.put(chunks('still here'), {});
      const { body } = await storage.open(blob.digest);
      await storage.remove(blob.digest);
      await storage.remove(blob.digest);
      assert.equal(await textOf(body), 'still here');
      await fails(storage.open(blob.digest), 'not_found');
      assert.deepEqual(await storage.put(chunks('still here'), {}), blob);
      assert.deepEqual(await storage.stat(blob.digest), blob);
    });

    test('points names to blobs, also a name below another', async (t) => {
      const { storage } = await open(t);
      const one = await storage.put(chunks('1'), {});
      const two = await storage.put(chunks('2'), {});
      await storage.putName('cache', one.digest);
      await storage.putName('cache/app', one.digest);
      await storage.putName('cache/app', two.digest);
      assert.deepEqual(await storage.getName('cache'), one);
      assert.deepEqual(await storage.getName('cache/app'), two);
      await storage.removeName('cache/app');
      await storage.removeName('cache/app');
      await fails(storage.getName('cache/app'), 'not_found');
      await storage.putName('cache/app', one.digest);
      assert.deepEqual(await storage.getName('cache/app'), one);
      await storage.remove(one.digest);
      await fails(storage.getName('cache'), 'not_found');
    });

    test('does not point a name to a blob that is not there', async (t) => {
      const { storage } = await open(t);
      await fails(storage.putName('a', digestOf('x')), 'not_found');
      await fails(storage.getName('a'), 'not_found');
    });

    test('lists blobs and names page by page, in their order', async (t) => {
      const { storage } = await open(t);
      const digests: string[] = [];
      for (const text of ['a', 'b', 'c', 'd', 'e']) digests.push((await storage.put(chunks(text), {})).digest);
      for (const name of ['d', 'a', 'c', 'b/x', 'e']) await storage.putName(name, digests[0] ?? '');
      await storage.removeName('c');
      const listed: string[] = [];
      const names: string[] = [];
      for (let page = await storage.list({ after: '', limit: 2 }); ;) {
        listed.push(...page.map(({ digest }) => digest));
        if (page.length < 2) break;
        page = await storage.list({ after: listed.at(-1) ?? '', limit: 2 });
      }
      for (let page = await storage.listNames({ after: '', limit: 2 }); ;) {
        names.push(...page.map(({ name: one }) => one));
        if (page.length < 2) break;
        page = await storage.listNames({ after: names.at(-1) ?? '', limit: 2 });
      }
      assert.deepEqual(listed, digests.toSorted());
      assert.deepEqual(names, ['a', 'b/x', 'd', 'e']);
    });

    test('what was put, named or asked after since is not removed, and what was not is', async (t) => {
      const { storage, age } = await open(t);
      const { digest } = await storage.put(chunks('old'), {});
      const [listed] = await storage.list({ after: '', limit: 1 });
      assert.ok(listed);
      const unusedSince = listed.usedAt - hourMs;
      for (const use of [
        () => storage.put(chunks('old'), {}),
        () => storage.stat(digest),
        () => storage.putName('it', digest),
        () => storage.getName('it'),
      ]) {
        await age(digest, 2 * hourMs);
        await use();
        await fails(storage.remove(digest, { unusedSince }), 'conflict');
      }
      await age(digest, 2 * hourMs);
      await storage.remove(digest, { unusedSince });
      await fails(storage.stat(digest), 'not_found');
    });

    test('refuses digests and names that are none', async (t) => {
      const { storage } = await open(t);
      for (const bad of ['', '..', '.', 'a/../b', '/a', 'a/', 'a//b', 'a\0', 'a b', 'ä', 'a+b', 'x'.repeat(201)]) {
        await fails(storage.getName(bad), 'invalid');
      }
      const hex = 'a'.repeat(63);
      for (const bad of ['', 'sha256:', '../../etc/passwd', `sha256:${'A'.repeat(64)}`, `sha256:${hex}/`]) {
        await assert.rejects(
          async () => storage.open(bad),
          (error) => hasCode(error, 'invalid'),
        );
        await fails(storage.stat(bad), 'invalid');
      }
    });
  });
}
