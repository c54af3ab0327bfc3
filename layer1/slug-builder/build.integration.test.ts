/** Real builds: npm and its registry, git, tar, the app's user. As root, which the builder's container gives. */
import assert from 'node:assert/strict';
import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmod, cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { after, before, test } from 'node:test';
import { zstdDecompressSync } from 'node:zlib';
import { type BlobClient, createBlobClient } from '@flynn/blobstore/client';
import { openFilesystem } from '@flynn/blobstore/filesystem';
import { blobHandlers } from '@flynn/blobstore/server';
import type { BuildResult } from '@flynn/controller/model';
import { type RunningServer, startServer } from '@flynn/kit/http-server';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { build } from './build.ts';
import type { Layout } from './buildpack.ts';
import { baseEnv } from './environment.ts';
import { createOutput } from './output.ts';

const apps = resolve(import.meta.dirname, '../../test/apps');
const self = [process.execPath, '--disable-warning=ExperimentalWarning', join(import.meta.dirname, 'main.ts')] as const;

const limits = {
  diskBytes: 4 * 1024 ** 3,
  timeoutMs: 270_000,
  outputBytes: 1024 ** 2,
  cacheBytes: 1024 ** 3,
  slugBytes: 1024 ** 3,
};

let root = '';
let server: RunningServer;
let blobs: BlobClient;

before(async () => {
  root = await mkdtemp(join(tmpdir(), 'flynn-slugs-'));
  await chmod(root, 0o755);
  const storage = await openFilesystem(join(root, 'blobs'), { nowMs: Date.now() });
  server = await startServer({
    name: 'blobstore',
    handlers: blobHandlers(storage),
    key: 'k',
    port: 0,
    log: silentLogger(),
  });
  blobs = createBlobClient({ baseUrl: server.url, key: 'k' });
});

after(async () => {
  await blobs.close();
  await server.close();
  await rm(root, { recursive: true, force: true });
});

type Built = { result: BuildResult; output: string; layout: Layout };
let count = 0;

/** Builds what is in `dir`, in folders of its own as each build has a container of its own. */
async function buildApp(appId: string, dir: string, appEnv: Record<string, string> = {}): Promise<Built> {
  count += 1;
  const base = join(root, `build-${count}`);
  await mkdir(base);
  const layout: Layout = {
    appDir: join(base, 'app'),
    cacheDir: join(base, 'cache'),
    envDir: join(base, 'env'),
    runtimeDir: join(base, 'opt/flynn'),
    scratchDir: join(base, 'scratch'),
  };
  const source = await blobs.put(execFileSync('tar', ['-C', dir, '-cf', '-', '.'], { maxBuffer: 64 * 1024 ** 2 }));
  const env = {
    ...baseEnv(process.env, { home: layout.appDir, commit: 'c0ffee' }),
    FLYNN_TEST_OUTPUT: join(base, 'output'),
  };
  // The steps write to this process's output in a container; here to a file that the test reads.
  const shell = ['bash', '--norc', '-c', 'exec "$@" >>"$FLYNN_TEST_OUTPUT" 2>&1', 'step', ...self] as const;
  await writeFile(join(base, 'output'), '');
  await chmod(join(base, 'output'), 0o666);
  let said = '';
  const out = createOutput((text) => (said += text));
  const job = { operationId: `operation-${count}`, sourceDigest: source.digest, commit: 'c0ffee', appId, appEnv };
  const readOutput = async (): Promise<string> => (await readFile(join(base, 'output'), 'utf8')) + said;
  try {
    const result = await build(
      job,
      { blobs, layout, self: shell, env, out, nowMs: Date.now(), limits },
      AbortSignal.timeout(280_000),
    );
    return { result, output: await readOutput(), layout };
  } catch (error) {
    throw new Error(`${String(error)}\n${await readOutput()}`, { cause: error });
  }
}

/** The slug's layers unpacked on each other. */
async function unpackSlug({ layers }: BuildResult): Promise<string> {
  const dir = await mkdtemp(join(root, 'slug-'));
  for (const { digest } of layers) {
    const packed = Buffer.concat(await (await blobs.get(digest)).toArray());
    execFileSync('tar', ['-xf', '-', '-C', dir], { input: zstdDecompressSync(packed) });
  }
  return dir;
}

/** Runs a process type the way the slug runner does, with the slug's folder in place of /. */
async function start(slug: string, line: string, env: Record<string, string>): Promise<ChildProcess & AsyncDisposable> {
  const profile = join(slug, 'app/.profile.d/nodejs.sh');
  await writeFile(profile, (await readFile(profile, 'utf8')).replaceAll('/opt/flynn', join(slug, 'opt/flynn')));
  const child = spawn(join(import.meta.dirname, 'flynn-run'), [line], {
    env: { PATH: '/usr/bin:/bin', FLYNN_RUN_DIR: join(slug, 'app'), ...env },
    stdio: ['ignore', 'inherit', 'inherit'],
  });
  return Object.assign(child, {
    [Symbol.asyncDispose]: async () => {
      if (child.exitCode === null && child.signalCode === null) {
        child.kill('SIGKILL');
        await once(child, 'exit');
      }
    },
  });
}

const answerOf = (url: string): Promise<string> =>
  waitFor(async () => (await fetch(url)).text(), { what: `an answer of ${url}`, deadlineMs: 60_000 });

const fromCache = /^ {7}Taking packages that were downloaded before from the cache$/m;

test('an Express app builds with npm ci, answers, and stops at SIGTERM', async () => {
  const { result, output, layout } = await buildApp('express', join(apps, 'express'), { NOT_SEEN: 'by the slug' });
  for (const line of [
    /^-----> Node\.js app detected$/m,
    /^ {7}engines\.node 24\.x: Node\.js 24\./m,
    /^-----> Installing dependencies with npm$/m,
    /^ {7}added \d+ packages/m,
    /^ {7}Default types for Node\.js -> web$/m,
    /^-----> Compiled slug size is \d+\.\dM$/m,
  ]) {
    assert.match(output, line);
  }
  assert.deepEqual(result.processTypes, { web: 'node server.js' });
  assert.equal(result.layers.length, 3, 'Node, npm, the app');
  assert.equal((await blobs.getName('builds/operation-1'))?.sizeBytes !== undefined, true);
  const owner = execFileSync('stat', ['-c', '%u', join(layout.appDir, 'node_modules')], { encoding: 'utf8' }).trim();
  assert.equal(owner, process.getuid?.() === 0 ? '5000' : String(process.getuid?.()));

  const slug = await unpackSlug(result);
  const port = await freePort();
  await using app = await start(slug, result.processTypes['web'] ?? '', { PORT: String(port), GREETING: 'Moin' });
  assert.match(await answerOf(`http://127.0.0.1:${port}/`), /^Moin\n/);
  app.kill('SIGTERM');
  assert.deepEqual(await once(app, 'exit'), [0, null]);
});

test('the next build of the same app downloads nothing again and shares the runtime layers', async () => {
  const before = await blobs.getName('cache/express');
  const first = await blobs.getName('builds/operation-1');
  const { result, output } = await buildApp('express', join(apps, 'express'));
  assert.match(output, fromCache);
  assert.deepEqual(await blobs.getName('cache/express'), before, 'an unchanged cache is not stored again');
  assert.equal(
    (await blobs.getName(`builds/operation-${count}`))?.digest,
    first?.digest,
    'the same source is the same slug',
  );
  assert.equal(result.meta['git.commit'], 'c0ffee');
});

test('another app of the same versions has the very same runtime layers, and a worker beside its web', async () => {
  const { result, output } = await buildApp('two', join(apps, 'web-worker'));
  const express = await buildApp('three', join(apps, 'express'));
  assert.deepEqual(result.layers.slice(0, 2), express.result.layers.slice(0, 2));
  assert.match(output, /Procfile declares types -> web, worker/);
  assert.equal(result.processTypes['worker'], 'INTERVAL_MS=${INTERVAL_MS:-1000} node worker.js');
});

test('a TypeScript app is built with its development dependencies and shipped without them', async () => {
  const { result } = await buildApp('typescript', join(apps, 'typescript'));
  const slug = await unpackSlug(result);
  const names = execFileSync('ls', ['-A', join(slug, 'app')], { encoding: 'utf8' }).split('\n');
  assert.ok(names.includes('dist'), 'built');
  assert.ok(!names.includes('src'), '.slugignore keeps the source out');
  const modules = execFileSync('bash', ['--norc', '-c', `ls ${slug}/app/node_modules 2>/dev/null || true`], {
    encoding: 'utf8',
  });
  assert.doesNotMatch(modules, /typescript/);
  const port = await freePort();
  await using app = await start(slug, result.processTypes['web'] ?? '', { PORT: String(port) });
  assert.equal(await answerOf(`http://127.0.0.1:${port}/`), 'Hello from TypeScript\n');
  app.kill('SIGTERM');
  await once(app, 'exit');
});

test('a static site is served', async () => {
  const { result } = await buildApp('static', join(apps, 'static'));
  const slug = await unpackSlug(result);
  const port = await freePort();
  await using app = await start(slug, result.processTypes['web'] ?? '', { PORT: String(port) });
  assert.match(await answerOf(`http://127.0.0.1:${port}/`), /Served by Flynn/);
  assert.match(await answerOf(`http://127.0.0.1:${port}/nowhere`), /There is no such page/);
  app.kill('SIGTERM');
  assert.deepEqual(await once(app, 'exit'), [0, null]);
});

test('another Node.js than the builder’s is fetched, with an npm that runs on it', async () => {
  const dir = join(root, 'old-node');
  await cp(join(apps, 'crash'), dir, { recursive: true });
  const manifest = JSON.parse(await readFile(join(dir, 'package.json'), 'utf8')) as Record<string, unknown>;
  await writeFile(join(dir, 'package.json'), JSON.stringify({ ...manifest, engines: { node: '18.x' } }));
  const { result, output } = await buildApp('old', dir);
  assert.match(output, /engines\.node 18\.x: Node\.js 18\.\d+\.\d+\n {7}npm 10\./);
  const slug = await unpackSlug(result);
  const version = execFileSync('bash', ['--norc', '-c', `${slug}/opt/flynn/node-18*/bin/node --version`], {
    encoding: 'utf8',
  });
  assert.match(version, /^v18\./);
  const again = await buildApp('old', dir);
  assert.deepEqual(again.result, result);
});

test('a failing build script fails the build with its output and what to check', async () => {
  await assert.rejects(buildApp('failing', join(apps, 'failing-build')), (error: Error) => {
    assert.match(error.message, /^ {7}src\/app\.css:12: the colour "reed" does not exist$/m);
    assert.match(error.message, /^ ! {5}"npm run build" failed with exit code 1: its output is above\.$/m);
    assert.match(error.message, /^ ! {5}- that "npm run build" works on a fresh clone/m);
    return true;
  });
  assert.equal(await blobs.getName(`builds/operation-${count}`), undefined);
});

test('what a build installed before it failed is there for the next one', async () => {
  const dir = join(root, 'mended');
  await cp(join(apps, 'express'), dir, { recursive: true });
  const manifest = JSON.parse(await readFile(join(dir, 'package.json'), 'utf8')) as Record<string, unknown>;
  const scripts = { start: 'node server.js', build: 'false' };
  await writeFile(join(dir, 'package.json'), JSON.stringify({ ...manifest, scripts }));
  await assert.rejects(buildApp('mended', dir), (error: Error) => {
    assert.match(error.message, /added \d+ packages/);
    return true;
  });
  await writeFile(join(dir, 'package.json'), JSON.stringify({ ...manifest, scripts: { ...scripts, build: 'true' } }));
  const { output } = await buildApp('mended', dir);
  assert.match(output, fromCache);
});

test('code of the app sees its own variables and none of the cluster’s', async () => {
  const dir = join(root, 'spy');
  await mkdir(dir);
  const scripts = { build: 'env; cat /proc/$PPID/environ | tr "\\0" "\\n"; id -u', start: 'node x.js' };
  const dependencies = { local: 'file:./local' };
  await writeFile(join(dir, 'package.json'), JSON.stringify({ scripts, dependencies }));
  await mkdir(join(dir, 'local'));
  await writeFile(join(dir, 'local', 'package.json'), JSON.stringify({ name: 'local', version: '1.0.0' }));
  process.env['FLYNN_KEY'] = 'the-cluster-key';
  const { output } = await buildApp('spy', dir, { API_TOKEN: 'of the app' });
  delete process.env['FLYNN_KEY'];
  assert.match(output, /API_TOKEN=of the app/);
  assert.doesNotMatch(output, /the-cluster-key/);
  assert.match(output, /There is no lockfile/);
  if (process.getuid?.() === 0) assert.match(output, /^ {7}5000$/m);
});

test('an app that nothing recognizes is told what was looked for', async () => {
  const dir = join(root, 'nothing');
  await mkdir(dir);
  await writeFile(join(dir, 'README.md'), 'x');
  await assert.rejects(buildApp('nothing', dir), /Unable to select a buildpack[^]*package\.json[^]*Procfile/);
});

test('a build that could not look up a name says which, and what may be missing', async () => {
  const away = { NPM_CONFIG_REGISTRY: 'https://no-such-host.invalid', NPM_CONFIG_FETCH_RETRIES: '0' };
  await assert.rejects(
    buildApp('away', join(apps, 'express'), away),
    /could not look up no-such-host\.invalid\. .*flynn runner env set https_proxy=/,
  );
});
