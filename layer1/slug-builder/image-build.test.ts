import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { buffer, text } from 'node:stream/consumers';
import { test } from 'node:test';
import { savedFiles, tarOf } from '@flynn/controller/images/testing';
import { startTestBlobs } from '@flynn/controller/testing-blobs';
import { routes } from '@flynn/host-agent/api';
import { type BuildEvent, buildRoutes } from '@flynn/host-agent/api-builds';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { handle, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { extract, pack } from 'tar-stream';
import { type ImageBuildDeps, buildImage } from './image-build.ts';
import { createOutput } from './output.ts';

const { signal } = new AbortController();
const mebibyte = 1024 ** 2;
const limits: ImageBuildDeps['limits'] = {
  memoryBytes: 256 * mebibyte,
  pids: 100,
  diskBytes: 1024 * mebibyte,
  timeoutMs: 60_000,
  outputBytes: mebibyte,
  cacheBytes: mebibyte,
  slugBytes: 100 * mebibyte,
};
const layers = [await tarOf({ base: 'base' }), await tarOf({ app: 'app' })];

/** What a build says, in the place of a host agent that has an engine. */
type Says = (asked: { signal: AbortSignal }) => AsyncGenerator<BuildEvent> | Generator<BuildEvent>;

async function openPlace(says: Says, files: Record<string, string | Buffer | undefined> = savedFiles(layers)) {
  const store = await startTestBlobs();
  const asked: { body: unknown; ended: boolean; ensured: unknown[] } = { body: undefined, ended: false, ensured: [] };
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
        return { name: `here:${asked.ensured.length}` };
      }),
      handle(routes.image, async () => ({ body: Readable.from([await tarOf(files)], { objectMode: false }) })),
    ],
  });
  const agent = new HttpClient({ baseUrl: server.url, key: 'k', name: 'the host agent' });
  let output = '';
  const out = createOutput((line) => (output += line));
  const build = async (source: Record<string, string>, more: Partial<ImageBuildDeps['limits']> = {}) => {
    const archive = pack();
    for (const [name, content] of Object.entries(source)) archive.entry({ name }, content);
    archive.finalize();
    const { digest: sourceDigest } = await store.blobs.put(await buffer(archive));
    const job = { operationId: 'o1', appId: 'a1', commit: 'abc', appEnv: { A: '1', B: '2' }, sourceDigest };
    const ownImages = { 'flynn/slug-runner': 'flynn/slug-runner:77', 'flynn/slug-builder': undefined };
    return buildImage(
      job,
      { blobs: store.blobs, agent, out, limits: { ...limits, ...more }, cache: 'c1', ownImages },
      signal,
    );
  };
  return {
    blobs: store.blobs,
    asked,
    build,
    output: () => output,
    async [Symbol.asyncDispose]() {
      await agent.close();
      await server.close();
      await store[Symbol.asyncDispose]();
    },
  };
}

function* succeeds(): Generator<BuildEvent> {
  yield { line: 'Step 1/1 : FROM x' };
  yield { image: 'flynn-t/build:a1' };
}

const isError = (code: 'invalid' | 'exhausted' | 'timeout', pattern: RegExp) => (error: unknown) =>
  hasCode(error, code) && pattern.test(error.message);

test('the engine gets the context without what is ignored, and the result is an image with a Procfile’s types', async () => {
  await using place = await openPlace(succeeds);
  const result = await place.build({
    '.dockerignore': 'secret\n*.md\n',
    'app.json': '{}',
    Dockerfile: 'FROM flynn/slug-runner\nARG A\nCOPY . /\n',
    Procfile: 'worker: work\nrelease: migrate\n',
    'lib/code.js': 'code',
    'read.md': 'x',
    'secret/key': 'x',
  });
  assert.equal(result.buildpack, 'dockerfile');
  assert.deepEqual(result.processTypes, { worker: 'work', release: 'migrate' });
  assert.equal(result.image?.hasCommand, true);
  assert.equal(result.layers.length, 2);
  assert.deepEqual(result.meta, { 'git.commit': 'abc' });
  assert.equal((await place.blobs.getName('builds/o1')) === undefined, false);
  const { contextDigest, ...asked } = buildRoutes.build.body.parse(place.asked.body);
  assert.deepEqual(asked, {
    dockerfile: 'Dockerfile',
    cache: 'c1',
    args: { A: '1' },
    limits: { memoryBytes: limits.memoryBytes, cpuMillis: 100, pids: 100, diskBytes: limits.diskBytes },
  });
  assert.deepEqual(place.asked.ensured, [{ name: 'flynn/slug-runner:77' }]);
  const files = new Map<string, string>();
  const context = extract();
  (await place.blobs.get(contextDigest)).pipe(context);
  for await (const entry of context) files.set(entry.header.name, await text(entry));
  assert.deepEqual([...files.keys()].sort(), ['.dockerignore', 'Dockerfile', 'Procfile', 'app.json', 'lib/code.js']);
  assert.equal(files.get('Dockerfile'), 'FROM here:1\nARG A\nCOPY . /\n');
  assert.match(place.output(), /Step 1\/1 : FROM x/);
  const again = await place.build({ Dockerfile: 'FROM x' });
  assert.deepEqual(again.layers, result.layers);
  assert.match(place.output(), /there already/);
});

test('FROM takes an image that was pushed, by its number', async () => {
  await using place = await openPlace(succeeds);
  const number = '0'.repeat(64);
  await assert.rejects(
    place.build({ Dockerfile: `FROM flynn/image:${number}` }),
    isError('invalid', /has no image flynn\/image:000/),
  );
  const first = await place.build({ Dockerfile: 'FROM x' });
  const { digest = '' } = (await place.blobs.getName('builds/o1')) ?? {};
  await place.build({ Dockerfile: `FROM flynn/image:${digest.slice('sha256:'.length)}` });
  assert.deepEqual(place.asked.ensured, [{ config: first.image?.config, layers: first.layers }]);
});

const refused: [what: string, source: Record<string, string>, pattern: RegExp][] = [
  ['words only BuildKit knows', { Dockerfile: 'FROM x\nRUN --mount=type=cache,target=/c make' }, /only BuildKit knows/],
  ['a Procfile that is none', { Dockerfile: 'FROM x', Procfile: 'this is no Procfile' }, /Procfile/],
  ['a Dockerfile of megabytes', { Dockerfile: `FROM x\n${'#'.repeat(2 * mebibyte)}` }, /larger than a megabyte/],
];
for (const [what, source, pattern] of refused) {
  test(`${what} is told before anything is built`, async () => {
    await using place = await openPlace(succeeds);
    await assert.rejects(place.build(source), isError('invalid', pattern));
    assert.equal(place.asked.body, undefined);
  });
}

test('why the engine failed is the build’s failure; of a limit, who can raise it', async () => {
  await using failing = await openPlace(function* () {
    yield { error: { code: 'invalid', message: 'returned a non-zero code: 3' } };
  });
  await assert.rejects(failing.build({ Dockerfile: 'FROM x' }), isError('invalid', /^returned a non-zero code: 3$/));
  await using greedy = await openPlace(function* () {
    yield { error: { code: 'exhausted', message: 'the build needed more memory than its limit' } };
  });
  await assert.rejects(greedy.build({ Dockerfile: 'FROM x' }), isError('exhausted', /FLYNN_BUILD_MEMORY=/));
  await using gone = await openPlace(function* () {
    yield { line: 'one' };
  });
  await assert.rejects(gone.build({ Dockerfile: 'FROM x' }), /stopped building without saying why/);
});

test('a build that prints without end, or never ends, is ended with its reason', async () => {
  await using loud = await openPlace(function* () {
    for (;;) yield { line: 'x'.repeat(1_000) };
  });
  await assert.rejects(
    loud.build({ Dockerfile: 'FROM x' }),
    isError('exhausted', /printed more than its limit of 1\.0M/),
  );
  await using silent = await openPlace(async function* ({ signal: going }) {
    yield { line: 'waiting' };
    await new Promise((resolve) => going.addEventListener('abort', resolve));
  });
  await assert.rejects(
    silent.build({ Dockerfile: 'FROM x' }, { timeoutMs: 300 }),
    isError('timeout', /longer than its limit of 0\.3 s/),
  );
});

test('an image that starts nothing, or is too large, is told', async () => {
  const config = JSON.parse(String(savedFiles(layers)['config.json'])) as object;
  const files = { ...savedFiles(layers), 'config.json': JSON.stringify({ ...config, config: {} }) };
  await using nothing = await openPlace(succeeds, files);
  await assert.rejects(nothing.build({ Dockerfile: 'FROM x' }), isError('invalid', /give the Dockerfile a CMD/));
  await using large = await openPlace(succeeds);
  await assert.rejects(
    large.build({ Dockerfile: 'FROM x' }, { slugBytes: 10 }),
    isError('exhausted', /larger than its limit/),
  );
});
