import assert from 'node:assert/strict';
import { once } from 'node:events';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { type TestContext, test } from 'node:test';
import { zstdDecompressSync } from 'node:zlib';
import type { BlobClient } from '@flynn/blobstore/client';
import type { BuildResult } from '@flynn/controller/model';
import { FlynnError } from '@flynn/kit/errors';
import { extract } from 'tar-stream';
import { build, keptCache } from './build.ts';
import type { SlugPlan } from './compile.ts';
import { createOutput } from './output.ts';
import { StepFailure } from './user.ts';

const unused = (): never => {
  throw new FlynnError('internal', 'such a build asks its store for no such thing');
};

type Bench = {
  building: Promise<BuildResult>;
  said: () => string;
  /** What each upload that was answered has. */
  uploads: Buffer[];
  names: string[];
};

/** A build whose steps answer this; the store takes everything, and never answers to an upload of which `isHanging` says so. */
async function bench(
  t: TestContext,
  compile: { answer: unknown; exitCode: number },
  isHanging: (upload: number) => boolean,
): Promise<Bench> {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-build-'));
  t.after(() => rm(dir, { recursive: true, force: true }));
  await chmod(dir, 0o755);
  const uploads: Buffer[] = [];
  const names: string[] = [];
  let begun = 0;
  const blobs: BlobClient = {
    get: async () => Readable.from(['source']),
    getName: async () => undefined,
    put: async (content, { signal } = {}) => {
      begun += 1;
      const upload = begun;
      const stored =
        typeof content === 'string' || content instanceof Uint8Array ? Buffer.from(content) : await buffer(content);
      if (isHanging(upload)) {
        if (signal !== undefined && !signal.aborted) await once(signal, 'abort');
        throw signal?.reason;
      }
      uploads.push(stored);
      return { digest: `sha256:${String(upload).padStart(64, '0')}`, sizeBytes: stored.length };
    },
    putName: async (name) => void names.push(name),
    stat: unused,
    remove: unused,
    list: unused,
    listNames: unused,
    replication: unused,
    removeName: unused,
    close: unused,
  };
  const answers = { unpack: JSON.stringify({ timeS: 1_600_000_000 }), compile: JSON.stringify(compile.answer) };
  const step = `cat >/dev/null; case $0 in unpack) printf '%s' '${answers.unpack}' >&3;; *) printf '%s' '${answers.compile}' >&3; exit ${compile.exitCode};; esac`;
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
      self: ['sh', '-c', step],
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
      keepCacheMs: 1_000,
    },
    t.signal,
  );
  return { building, said: () => said, uploads, names };
}

const plan: SlugPlan = { buildpack: 'p', processTypes: { web: 'run' }, runtimes: [], isCacheChanged: true };

test('a build that failed tells why, whatever becomes of its cache', { timeout: 30_000 }, async (t) => {
  const { building, said } = await bench(t, { answer: keptCache, exitCode: 7 }, () => true);
  await assert.rejects(building, (error) => error instanceof StepFailure && error.exitCode === 7);
  assert.match(said(), /The build cache could not be stored/);
});

test('a build that succeeded has, whatever becomes of its cache and of its time', { timeout: 30_000 }, async (t) => {
  const { building, said, names } = await bench(t, { answer: plan, exitCode: 0 }, (upload) => upload === 3);
  assert.deepEqual((await building).processTypes, { web: 'run' });
  assert.deepEqual(names, ['builds/o']);
  assert.match(said(), /The build cache could not be stored/);
});

test('files of an app have the time of its source, and no others do', { timeout: 30_000 }, async (t) => {
  const { building, uploads } = await bench(t, { answer: plan, exitCode: 0 }, () => false);
  await building;
  const timesOf = async (upload: Buffer | undefined): Promise<(number | undefined)[]> => {
    const times: (number | undefined)[] = [];
    for await (const entry of Readable.from([zstdDecompressSync(upload ?? '')]).pipe(extract())) {
      times.push(entry.header.mtime?.getTime());
      entry.resume();
    }
    return times;
  };
  const [app, , cache] = uploads;
  assert.deepEqual(await timesOf(app), [1_600_000_000_000]);
  assert.deepEqual(await timesOf(cache), [0]);
});
