/** For tests: builds of Dockerfiles, with a host agent that has no engine and says what the test wants. */
import assert from 'node:assert/strict';
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { layers as layerRoutes } from '@flynn/controller/collection/api-layers';
import { savedFiles, tarOf } from '@flynn/controller/images/testing';
import { startTestBlobs } from '@flynn/controller/testing/blobs';
import { routes } from '@flynn/host-agent/api';
import { type BuildEvent, buildRoutes } from '@flynn/host-agent/builds/api';
import { FlynnError } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { extract, pack } from 'tar-stream';
import { usualDockerfile } from './build-context.ts';
import { baseEnv } from './environment.ts';
import { type ImageBuildDeps, buildImage } from './image-build.ts';
import { createOutput } from './output.ts';

const { signal } = new AbortController();
const mebibyte = 1024 ** 2;
export const limits: ImageBuildDeps['limits'] = {
  memoryBytes: 256 * mebibyte,
  pids: 100,
  diskBytes: 1024 * mebibyte,
  timeoutMs: 60_000,
  outputBytes: mebibyte,
  cacheBytes: mebibyte,
  slugBytes: 100 * mebibyte,
};
export const layers = [await tarOf({ base: 'base' }), await tarOf({ app: 'app' })];

/** What a build says, in the place of a host agent that has an engine. */
type Says = (asked: { signal: AbortSignal }) => AsyncGenerator<BuildEvent> | Generator<BuildEvent>;

/** `given`: what `flynn runner env` says. */
export async function openPlace(
  says: Says,
  files: Record<string, string | Buffer | undefined> = savedFiles(layers),
  given: Readonly<Record<string, string>> = {},
) {
  const store = await startTestBlobs();
  const dir = await mkdtemp(join(tmpdir(), 'flynn-image-build-'));
  // Steps are the app's user.
  await chmod(dir, 0o755);
  const folder = (name: string): string => join(dir, name);
  const layout = {
    appDir: folder('app'),
    cacheDir: folder('cache'),
    envDir: folder('env'),
    runtimeDir: folder('opt'),
    scratchDir: folder('scratch'),
  };
  const steps = {
    layout,
    self: [process.execPath, '--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'main.ts')] as const,
    env: baseEnv(
      { ...given, FLYNN_BUILD_ENV: Object.keys(given).join(','), PATH: process.env['PATH'] },
      { home: layout.appDir, commit: '' },
    ),
  };
  const asked = {
    body: undefined as unknown,
    ended: false,
    ensured: [] as unknown[],
    /** What images set. An agent of a version before does not say. */
    env: undefined as Record<string, string> | undefined,
    others: new Set<string>(),
    breaks: 0,
  };
  const server = await startServer({
    name: 'agent',
    key: 'k',
    host: '127.0.0.1',
    port: 0,
    log: silentLogger(),
    handlers: [
      handle(buildRoutes.build, async ({ body, signal: going }) => {
        asked.body = body;
        const lines = async function* (): AsyncGenerator<string> {
          try {
            for await (const event of says({ signal: going })) yield `${JSON.stringify(event)}\n`;
          } finally {
            asked.ended = true;
          }
        };
        return { body: Readable.from(lines(), { objectMode: false }) };
      }),
      handle(buildRoutes.ensureImage, async ({ body }) => {
        asked.ensured.push(body.image);
        return { name: `here:${asked.ensured.length}`, ...(asked.env === undefined ? {} : { env: asked.env }) };
      }),
      handle(layerRoutes.missing, async ({ params, query }) => {
        assert.equal(params.operation, 'o1');
        return { missing: query.digests.split(',').filter((digest) => asked.others.has(digest)) };
      }),
      handle(routes.image, async () => ({ body: Readable.from([await tarOf(files)], { objectMode: false }) })),
    ],
  });
  /** Breaks off the next uploads of streams once they have begun. */
  const blobs: typeof store.blobs = {
    ...store.blobs,
    async put(body, options) {
      if (asked.breaks === 0 || !(body instanceof Readable)) return store.blobs.put(body, options);
      asked.breaks -= 1;
      for await (const _ of body) break;
      throw new FlynnError('unavailable', 'the upload broke');
    },
  };
  const agent = new HttpClient({ baseUrl: server.url, key: 'k', name: 'the host agent' });
  let output = '';
  const out = createOutput((line) => (output += line));
  const build = async (
    source: Record<string, string>,
    more: Partial<ImageBuildDeps['limits']> = {},
    appEnv: Record<string, string> = { A: '1', B: '2' },
    dockerfile = usualDockerfile,
  ) => {
    const archive = pack();
    for (const [name, content] of Object.entries(source)) archive.entry({ name, mtime: new Date(0) }, content);
    archive.finalize();
    const { digest: sourceDigest } = await store.blobs.put(await buffer(archive));
    const job = { operationId: 'o1', appId: 'a1', commit: 'abc', appEnv, sourceDigest, dockerfile };
    const ownImages = { 'flynn/slug-runner': 'flynn/slug-runner:77', 'flynn/slug-builder': undefined };
    const own = { limits: { ...limits, ...more }, cache: 'c1', ownImages };
    return buildImage(job, { ...own, blobs, agent, controller: agent, steps, out }, signal);
  };
  /** What the engine was given to build of. */
  const context = async (): Promise<Map<string, string>> => {
    const { contextDigest } = buildRoutes.build.body.parse(asked.body);
    const files = new Map<string, string>();
    const archive = extract();
    (await store.blobs.get(contextDigest)).pipe(archive);
    for await (const entry of archive) {
      if (entry.header.type === 'file') files.set(entry.header.name, await text(entry));
      entry.resume();
    }
    return files;
  };
  return {
    blobs: store.blobs,
    asked,
    build,
    context,
    output: () => output,
    async [Symbol.asyncDispose]() {
      await agent.close();
      await server.close();
      await store[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export function* succeeds(): Generator<BuildEvent> {
  yield { line: 'Step 1/1 : FROM x' };
  yield { image: 'flynn-t/build:a1' };
}
