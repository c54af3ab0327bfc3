/** What goes in and out of the blob store, as figures. */
import { statfs } from 'node:fs/promises';
import { hasCode } from '@flynn/kit/errors';
import type { Metrics } from '@flynn/kit/metrics';
import type { Copying } from './copying.ts';
import type { Storage } from './storage.ts';
import type { BlobStore } from './store.ts';
import type { Verification } from './verification.ts';

/** The same storage, counted. `dir` is where it keeps its files. */
export function countedStorage(storage: Storage, metrics: Metrics, dir: string): Storage {
  const name = (rest: string) => `flynn_blobs_${rest}`;
  const put = metrics.counter(name('put_total'), 'Blobs put, those that were there already too.');
  const putBytes = metrics.counter(name('put_bytes_total'), 'Bytes of blobs put.');
  const read = metrics.counter(name('read_total'), 'Blobs asked for.');
  const readBytes = metrics.counter(name('read_bytes_total'), 'Bytes of blobs asked for.');
  const removed = metrics.counter(name('removed_total'), 'Blobs removed.');
  const missing = metrics.counter(name('missing_total'), 'Blobs asked for that are not there.');
  const room = async () => statfs(dir);
  metrics.gauge(name('disk_bytes'), 'Size of its disk.', async () => {
    const { blocks, bsize } = await room();
    return [{ value: blocks * bsize }];
  });
  metrics.gauge(name('disk_free_bytes'), 'Room on its disk.', async () => {
    const { bavail, bsize } = await room();
    return [{ value: bavail * bsize }];
  });
  return {
    async put(body, options) {
      const blob = await storage.put(body, options);
      put.add();
      putBytes.add({}, blob.sizeBytes);
      return blob;
    },
    async open(digest, options) {
      const opened = await storage.open(digest, options).catch((error: unknown) => {
        if (hasCode(error, 'not_found')) missing.add();
        throw error;
      });
      read.add();
      readBytes.add({}, opened.sizeBytes - (options?.from ?? 0));
      return opened;
    },
    async remove(digest, options) {
      await storage.remove(digest, options);
      removed.add();
    },
    stat: (digest) => storage.stat(digest),
    list: (page) => storage.list(page),
    listNames: (page) => storage.listNames(page),
    putName: (pointer, digest) => storage.putName(pointer, digest),
    getName: (pointer) => storage.getName(pointer),
    removeName: (pointer) => storage.removeName(pointer),
  };
}

/** How alike this store and the others are, and what was done for it. */
export function replicationMetrics(
  metrics: Metrics,
  store: Pick<BlobStore, 'status'> & { copying: Pick<Copying, 'counts'>; verification: Pick<Verification, 'counts'> },
): void {
  const name = (rest: string) => `flynn_blobs_${rest}`;
  const { copying, verification } = store;
  const gauges = [
    ['lacking', 'Blobs that another store has and this one has not yet.', () => store.status.missing.count],
    ['lacking_bytes', 'Their bytes.', () => store.status.missing.bytes],
    ['damaged', 'Blobs that the disk damaged and no other store could replace.', () => store.status.damaged.count],
    [
      'moving',
      'Blobs that have yet to be moved to where the settings want them.',
      () => store.status.moving?.left.count ?? 0,
    ],
  ] as const;
  const counters = [
    ['copied_total', 'Blobs taken over from other stores.', () => copying.counts.copies],
    ['copied_bytes_total', 'Their bytes.', () => copying.counts.bytes],
    ['verified_total', 'Blobs read to compare them with their digest.', () => verification.counts.read],
    ['replaced_total', 'Damaged blobs that were replaced from another store.', () => verification.counts.replaced],
  ] as const;
  for (const [rest, help, read] of gauges) metrics.gauge(name(rest), help, () => [{ value: read() }]);
  for (const [rest, help, read] of counters) metrics.counted(name(rest), help, () => [{ value: read() }]);
}
