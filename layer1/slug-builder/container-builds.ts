/** For tests: builds in the builder's image and runs in the runner's, as hosts do, with blobs and discovery of the test. */
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { zstdDecompressSync } from 'node:zlib';
import { createBlobClient } from '@flynn/blobstore/client';
import { openFilesystem } from '@flynn/blobstore/filesystem';
import { blobHandlers } from '@flynn/blobstore/server';
import { type BuildResult, buildResultSchema } from '@flynn/controller/model';
import { createMemoryRegistry } from '@flynn/discovery/memory-registry';
import { discoveryHandlers } from '@flynn/discovery/server';
import { startServer } from '@flynn/kit/http-server';
import { freePort } from '@flynn/kit/testing-ports';
import { shortId } from '@flynn/kit/ids';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { testLabel } from '@flynn/kit/testing-label';

const run = promisify(execFile);
const label = 'flynn.test.builds';
/** How this machine reaches registries; the image knows its certificates and Debian's mirror. */
const fromMachine = /^(?:npm_config_registry|https?_proxy|no_proxy)$/i;

export type Built = { code: number; output: string; result: BuildResult | undefined };

export type ContainerBuilds = AsyncDisposable & {
  /** Builds what is in the folder. */
  build(
    appId: string,
    dir: string,
    options?: { appEnv?: Record<string, string>; env?: Record<string, string>; flags?: readonly string[] },
  ): Promise<Built>;
  /** Unpacked: of a layer by its digest, of what is kept for the app's next build by its id. */
  stored(which: { digest: string } | { cacheOf: string }): Promise<Buffer>;
  /** Runs a process type until its stop. `url` answers once it listens. */
  start(result: BuildResult, type: string, env?: Record<string, string>): Promise<Running>;
};

export type Running = AsyncDisposable & {
  url: string;
  exec(command: string): Promise<string>;
  stop(): Promise<number>;
};

const imageOf = (name: string): string => {
  const image = process.env[`FLYNN_TEST_${name}_IMAGE`];
  if (image === undefined) throw new Error(`no image for ${name}: run with npm test -- integration`);
  return image;
};

export async function openContainerBuilds(): Promise<ContainerBuilds> {
  const root = await mkdtemp(join(tmpdir(), 'flynn-builds-'));
  const log = silentLogger();
  const stopping = new AbortController();
  const storage = await openFilesystem(join(root, 'blobs'), { nowMs: Date.now() });
  const registry = createMemoryRegistry({ log });
  const server = await startServer({
    name: 'the platform',
    handlers: [...blobHandlers(storage), ...discoveryHandlers(registry, { signal: stopping.signal })],
    host: '127.0.0.1',
    port: 0,
    log,
  });
  await registry.register({ service: 'blobstore', id: 'test', address: new URL(server.url).host, attributes: {} });
  const blobs = createBlobClient({ baseUrl: server.url, key: 'k' });
  const owner = shortId();
  const labelled = ['--label', testLabel, '--label', `${label}=${owner}`];
  let count = 0;
  const stored = async (which: { digest: string } | { cacheOf: string }): Promise<Buffer> => {
    const digest = 'digest' in which ? which.digest : (await blobs.getName(`cache/${which.cacheOf}`))?.digest;
    if (digest === undefined) throw new Error('nothing is stored there');
    return zstdDecompressSync(Buffer.concat(await (await blobs.get(digest)).toArray()));
  };

  return {
    async build(appId, dir, { appEnv = {}, env = {}, flags = [] } = {}) {
      count += 1;
      const operationId = `operation-${count}`;
      const source = spawn('tar', ['-C', dir, '-cf', '-', '.']);
      // A child that has ended lets go of output that nobody reads yet.
      const { digest } = await blobs.put(source.stdout.pipe(new PassThrough()));
      const settings = {
        ...Object.fromEntries(Object.entries(process.env).filter(([name]) => fromMachine.test(name))),
        NPM_CONFIG_REGISTRY: (await run('npm', ['config', 'get', 'registry'])).stdout.trim(),
        ...env,
        FLYNN_OPERATION_ID: operationId,
        FLYNN_SOURCE_DIGEST: digest,
        FLYNN_COMMIT: 'c0ffee',
        FLYNN_APP_ID: appId,
        FLYNN_APP_ENV: JSON.stringify(appEnv),
        FLYNN_KEY: 'k',
        FLYNN_DISCOVERY_URL: server.url,
      };
      const variables = Object.entries(settings).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
      const args = ['run', '--rm', '--init', '--network', 'host', ...labelled, ...flags, ...variables];
      const child = spawn('docker', [...args, imageOf('SLUG_BUILDER')], { stdio: ['ignore', 'pipe', 'pipe'] });
      const ended = new Promise<number>((resolve) => child.once('close', (code) => resolve(code ?? -1)));
      const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
      const named = await blobs.getName(`builds/${operationId}`);
      const chunks = named === undefined ? undefined : await (await blobs.get(named.digest)).toArray();
      const result =
        chunks === undefined ? undefined : buildResultSchema.parse(JSON.parse(Buffer.concat(chunks).toString()));
      return { code, output: stdout + stderr, result };
    },

    stored,

    async start(result, type, env = {}) {
      const port = await freePort();
      const variables = Object.entries({ PORT: String(port), ...env }).flatMap(([name, value]) => [
        '-e',
        `${name}=${value}`,
      ]);
      const command = ['/usr/bin/flynn-run', result.processTypes[type] ?? ''];
      const args = [
        'create',
        '--init',
        '--network',
        'host',
        '--user',
        '5000',
        '--workdir',
        '/app',
        ...labelled,
        ...variables,
      ];
      const id = (await run('docker', [...args, imageOf('SLUG_RUNNER'), ...command])).stdout.trim();
      for (const layer of result.layers) {
        const copy = spawn('docker', ['cp', '-', `${id}:/`], { stdio: ['pipe', 'ignore', 'inherit'] });
        const copied = new Promise<number | null>((resolve) => copy.once('close', resolve));
        copy.stdin.end(await stored(layer));
        if ((await copied) !== 0) throw new Error('a layer could not be unpacked');
      }
      await run('docker', ['start', id]);
      const url = `http://127.0.0.1:${port}`;
      await waitFor(async () => (await fetch(url)).arrayBuffer(), {
        what: `an answer of ${type}`,
        deadlineMs: 60_000,
      }).catch(async (error: unknown) => {
        const { stdout, stderr } = await run('docker', ['logs', id]);
        throw new Error(`${String(error)}\n${stdout}${stderr}`, { cause: error });
      });
      return {
        url,
        exec: async (line) =>
          (await run('docker', ['exec', '--user', '5000', id, '/usr/bin/flynn-run', 'bash', '-c', line])).stdout,
        async stop() {
          await run('docker', ['stop', '-t', '20', id]);
          return Number((await run('docker', ['inspect', '-f', '{{.State.ExitCode}}', id])).stdout.trim());
        },
        [Symbol.asyncDispose]: async () => void (await run('docker', ['rm', '-fv', id])),
      };
    },

    async [Symbol.asyncDispose]() {
      const { stdout } = await run('docker', ['ps', '-aq', '--filter', `label=${label}=${owner}`]);
      const left = stdout.split('\n').filter((id) => id !== '');
      if (left.length > 0) await run('docker', ['rm', '-fv', ...left]);
      stopping.abort();
      await blobs.close();
      await server.close();
      await registry[Symbol.asyncDispose]();
      await rm(root, { recursive: true, force: true });
    },
  };
}
