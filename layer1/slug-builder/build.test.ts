import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import type { BlobClient } from '@flynn/blobstore/client';
import { FlynnError } from '@flynn/kit/errors';
import { build, keptCache } from './build.ts';
import { createOutput } from './output.ts';
import { StepFailure } from './user.ts';

const unused = (): never => {
  throw new FlynnError('internal', 'a build that failed asks its store for no such thing');
};

test('a build that failed tells why, whatever becomes of its cache', { timeout: 30_000 }, async (t) => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-build-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  await chmod(dir, 0o755);
  let uploads = 0;
  const blobs: BlobClient = {
    get: async () => Readable.from(['source']),
    getName: async () => undefined,
    // A store that takes everything and never answers.
    put: async (_content, options) => {
      uploads += 1;
      return new Promise((_resolve, reject) => {
        options?.signal?.addEventListener('abort', () => reject(options.signal?.reason), { once: true });
      });
    },
    stat: unused,
    remove: unused,
    list: unused,
    listNames: unused,
    replication: unused,
    putName: unused,
    removeName: unused,
    close: unused,
  };
  const self = [
    'sh',
    '-c',
    `cat >/dev/null; [ "$0" = unpack ] || { printf '%s' '${JSON.stringify(keptCache)}' >&3; exit 7; }`,
  ] as const;
  const folder = (name: string): string => join(dir, name);
  let said = '';
  const building = build(
    { operationId: 'o', sourceDigest: 'd', commit: '', appId: 'a', appEnv: {} },
    {
      blobs,
      layout: {
        appDir: folder('app'),
        cacheDir: folder('cache'),
        envDir: folder('env'),
        runtimeDir: folder('opt'),
        scratchDir: folder('scratch'),
      },
      self,
      env: { PATH: process.env['PATH'] ?? '' },
      out: createOutput((text) => (said += text)),
      nowMs: 0,
      limits: {
        diskBytes: 1024 ** 3,
        timeoutMs: 4_000,
        outputBytes: 1024,
        cacheBytes: 1024 ** 2,
        slugBytes: 1024 ** 2,
      },
      keepCacheMs: 5_000,
    },
    t.signal,
  );
  await assert.rejects(building, (error) => error instanceof StepFailure && error.exitCode === 7);
  assert.equal(uploads, 1);
  assert.match(said, /The build cache could not be stored/);
});
