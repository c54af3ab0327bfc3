import assert from 'node:assert/strict';
import { mkdir, mkdtemp, readdir, rm, symlink, utimes, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, test } from 'node:test';
import type { TestContext } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import * as fc from 'fast-check';
import { describeStorage } from './conformance.ts';
import { openDirectory, openFilesystem } from './filesystem.ts';
import { describeReplica } from './replica-conformance.ts';
import { removalMemoryMs } from './replica.ts';
import { checkName } from './storage.ts';
import { chunks, digestOf } from './testing.ts';

async function temporaryDir(t: TestContext): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-blobs-'));
  t.after(() => rm(dir, { recursive: true }));
  return dir;
}

async function setUp(t: TestContext) {
  const dir = await temporaryDir(t);
  return { dir, storage: await openFilesystem(dir, { nowMs: Date.now() }) };
}

describeStorage('storage in a directory', async (t) => {
  const { dir, storage } = await setUp(t);
  return {
    storage,
    async age(digest, ms) {
      const hex = digest.slice('sha256:'.length);
      const at = new Date(Date.now() - ms);
      await utimes(join(dir, 'blobs', 'sha256', hex.slice(0, 2), hex), at, at);
    },
  };
});

describeReplica('copies in a directory', async (t) => openDirectory(await temporaryDir(t), { nowMs: Date.now() }));

describe('the directory', () => {
  test('has nothing left of a refused upload', async (t) => {
    const { dir, storage } = await setUp(t);
    await assert.rejects(storage.put(chunks('hello'), { digest: digestOf('other') }), (e) => hasCode(e, 'invalid'));
    assert.deepEqual(await readdir(join(dir, 'tmp')), []);
    assert.deepEqual(await readdir(join(dir, 'blobs', 'sha256')), []);
  });

  test('has nothing left of an upload that breaks off', async (t) => {
    const { dir, storage } = await setUp(t);
    async function* broken(): AsyncGenerator<Uint8Array> {
      yield Buffer.from('half');
      throw new Error('gone');
    }
    await assert.rejects(storage.put(broken(), {}), /gone/);
    assert.deepEqual(await readdir(join(dir, 'tmp')), []);
    assert.deepEqual(await readdir(join(dir, 'blobs', 'sha256')), []);
  });

  test('loses uploads interrupted long ago, and only those', async (t) => {
    const dir = await temporaryDir(t);
    await mkdir(join(dir, 'tmp'), { recursive: true });
    await writeFile(join(dir, 'tmp', 'old'), '');
    await writeFile(join(dir, 'tmp', 'new'), '');
    await utimes(join(dir, 'tmp', 'old'), 1000, 1000);
    // Listed, but gone when it is looked at: the process that is being replaced has finished with it.
    await symlink(join(dir, 'nowhere'), join(dir, 'tmp', 'vanished'));
    await openFilesystem(dir, { nowMs: Date.now() });
    assert.deepEqual(await readdir(join(dir, 'tmp')), ['new', 'vanished']);
  });

  test('remembers removals for thirty days', async (t) => {
    const dir = await temporaryDir(t);
    const nowMs = Date.now();
    const own = await openDirectory(dir, { nowMs });
    const [old, young] = [digestOf('old'), digestOf('young')];
    await own.remove({ digest: old, before: nowMs - removalMemoryMs - 1_000 });
    await own.remove({ digest: young, before: nowMs - removalMemoryMs + 3_600_000 });
    await own.point({ name: 'old', digest: null, changedAt: nowMs - removalMemoryMs - 1_000 });
    await own.point({ name: 'kept', digest: young, changedAt: nowMs - removalMemoryMs - 1_000 });
    const reopened = await openDirectory(dir, { nowMs });
    const page = { after: '', limit: 10 };
    assert.deepEqual(
      (await reopened.removals(page)).map(({ digest }) => digest),
      [young],
    );
    assert.deepEqual(
      (await reopened.pointers(page)).map(({ name }) => name),
      ['kept'],
    );
  });
});

describe('names', () => {
  test('have no segment a path could climb with', () => {
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
