import assert from 'node:assert/strict';
import { mkdtemp, mkdtempDisposable, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { Cleaner } from './cleaner.ts';
import type { ImageInfo } from '../engine/engine.ts';
import { ImageUses } from '../images/uses.ts';

const stack = (id: string): ImageInfo => ({
  id,
  refs: [`flynn-c/stack:${id}`],
  labels: { 'flynn.cluster': 'c', 'flynn.stack': id },
  createdAtMs: 0,
  sizeBytes: 1,
});

test('above the high watermark unused images go until the low one; a full disk is told until there is room', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-cleaner-'));
  const log = silentLogger();
  const images = new Map(['a', 'b', 'c', 'd', 'e'].map((id) => [id, stack(id)]));
  let percent = 96;
  const uses = new ImageUses({ path: join(dir, 'uses.json'), log });
  const cleaner = new Cleaner({
    engine: {
      listImages: async () => [...images.values()],
      async removeImage(ref) {
        const id = ref.slice(-1);
        if (id === 'b') throw new FlynnError('conflict', 'in use after all');
        images.delete(id);
        percent -= 11;
      },
    },
    containers: {
      isCurrent: true,
      all: () => [
        {
          id: 'x',
          name: 'x',
          labels: {},
          state: 'exited',
          imageId: 'a',
          tty: false,
          volumes: [],
          createdAtMs: 0,
          isOutOfMemory: false,
        },
      ],
    },
    uses,
    cluster: 'c',
    named: async () => new Set(),
    usedPercent: async () => percent,
    log,
  });
  const { signal } = new AbortController();
  const look = () => cleaner.look({ isDue: false, signal });
  try {
    // Never heard of before: all of them might have been pulled a moment ago.
    await look();
    assert.equal(images.size, 5);
    assert.equal(cleaner.isFull, true);

    const idle = new Map([...images.keys()].map((id) => [id, 3_600_000]));
    uses.idleMsOf = (id) => idle.get(id);
    await look();
    assert.deepEqual([...images.keys()], ['a', 'b', 'e'], 'one in use, one that cannot go, one that need not go');
    assert.equal(cleaner.removed.images, 2);
    assert.equal(percent, 74);
    assert.equal(cleaner.isFull, false);
    percent = 80;
    await look();
    assert.equal(images.size, 3, 'below the high watermark nothing goes in a hurry');
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
});

function fullDisk(engine: ConstructorParameters<typeof Cleaner>[0]['engine']): Cleaner {
  const log = silentLogger();
  const uses = new ImageUses({ path: '/dev/full/uses.json', log });
  uses.idleMsOf = () => 3_600_000;
  const containers = { isCurrent: true, all: () => [] };
  const named = async () => new Set<string>();
  return new Cleaner({ engine, containers, uses, cluster: 'c', named, usedPercent: async () => 100, log });
}

test('a disk without room for the agent’s own notes gets room, and is told to be full', async () => {
  const images = new Map(['a', 'b'].map((id) => [id, stack(id)]));
  const cleaner = fullDisk({
    listImages: async () => [...images.values()],
    async removeImage(ref) {
      if (ref.endsWith('a')) throw new FlynnError('internal', 'its layer is busy');
      images.delete(ref.slice(-1));
    },
  });
  await cleaner.look({ isDue: false, signal: new AbortController().signal });
  assert.deepEqual([...images.keys()], ['a'], 'what the engine cannot let go of');
  assert.equal(cleaner.isFull, true);
});

test('an image that is pulled while the others are listed counts as pulled from then on', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-cleaner-'));
  const log = silentLogger();
  const uses = new ImageUses({ path: join(folder.path, 'uses.json'), log });
  const cleaner = new Cleaner({
    engine: {
      async listImages() {
        await uses.notePulled('meanwhile:1');
        return [];
      },
      removeImage: async () => assert.fail('nothing is there'),
    },
    containers: { isCurrent: true, all: () => [] },
    uses,
    cluster: 'c',
    named: async () => new Set<string>(),
    usedPercent: async () => 10,
    log,
  });
  await cleaner.look({ isDue: true, signal: new AbortController().signal });
  assert.deepEqual([...uses.pulled], ['meanwhile:1']);
});

test('a full disk is told also while the engine answers nothing', async () => {
  const timeout = () => Promise.reject(new FlynnError('timeout', 'the engine took too long'));
  const cleaner = fullDisk({ listImages: timeout, removeImage: timeout });
  await assert.rejects(cleaner.look({ isDue: false, signal: new AbortController().signal }));
  assert.equal(cleaner.isFull, true);
});
