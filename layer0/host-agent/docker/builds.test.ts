/** A build that fails, by what an engine that is pretended says of it, and when. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { Readable } from 'node:stream';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { connectDocker } from './docker.ts';
import { buildBridge, buildNetwork } from '../engine/labels.ts';

const cluster = 'test';
const network = buildNetwork(cluster, 'b1');
const limits = { memoryBytes: 128 * 1024 ** 2, cpuMillis: 500, pids: 64, diskBytes: 1024 ** 3 };

const eventLines = {
  connect: { Action: 'connect', Actor: { ID: 'n1', Attributes: { name: network, container: 'c1' } } },
  oom: { Action: 'oom', Actor: { ID: 'c1', Attributes: {} } },
};

/** By what the engine is asked for: an image of the host's platform, or of the one that stands behind it. */
type Images = Record<string, { Os: string; Architecture: string; OnBuild?: string[] }>;

/** An engine on which a step of the one build is killed for its memory; that it was is said after the end of the build. */
async function startEngine(images: Images = {}, registry: Images = {}, step?: object) {
  const folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const asked: URL[] = [];
  const bodies = new Map<string, string>();
  let events: ServerResponse | undefined;
  const say = (name: keyof typeof eventLines) => events?.write(`${JSON.stringify(eventLines[name])}\n`);
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '', 'http://engine');
    asked.push(url);
    let body = '';
    request.on('data', (chunk: Buffer) => void (body += chunk.toString()));
    request.on('end', () => {
      bodies.set(url.pathname.replace(/^\/v[\d.]+/, ''), body);
      const json = (code: number, answer: unknown): void => {
        response.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
      };
      if (url.pathname.endsWith('/events')) {
        events = response;
        response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
      } else if (step !== undefined && url.pathname.endsWith('/containers/json')) {
        json(200, [{ Id: 'c1', SizeRw: 4_096, HostConfig: { NetworkMode: network } }]);
      } else if (step !== undefined && url.pathname.endsWith('/containers/c1/json')) {
        json(200, { Id: 'c1', ...step });
      } else if (step !== undefined && url.pathname.endsWith('/build')) {
        response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
      } else if (url.pathname.endsWith('/build')) {
        say('connect');
        // Of a container that is removed nothing is said any more.
        const isKept = url.searchParams.get('forcerm') === 'false';
        response.on('close', () => setTimeout(() => isKept && say('oom'), 50));
        json(200, { errorDetail: { message: `The command '${'x'.repeat(70_000)}' returned a non-zero code: 137` } });
      } else if (url.pathname.endsWith('/images/create')) {
        const name = url.searchParams.get('fromImage') ?? '';
        const image = registry[`${name} ${url.searchParams.get('platform') ?? ''}`.trim()];
        if (image === undefined) json(404, { message: 'no such image' });
        else {
          images[name] = image;
          json(200, { status: 'Downloaded' });
        }
      } else if (/\/images\/.+\/json$/.test(url.pathname)) {
        const image = images[decodeURIComponent(url.pathname).replace(/^.*\/images\/(.*)\/json$/, '$1')];
        if (image === undefined) json(404, { message: 'no such image' });
        else json(200, { Id: 'sha256:a', ...image, Config: { OnBuild: image.OnBuild ?? null } });
      } else if (url.pathname.endsWith('/networks/create')) json(201, { Id: 'n1' });
      else if (request.method === 'DELETE') response.writeHead(204).end();
      else json(200, []);
    });
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  return {
    asked,
    bodies,
    socketPath,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await folder.remove();
    },
  };
}

const linux = { Os: 'linux', Architecture: process.arch === 'x64' ? 'amd64' : process.arch };
const other = { Os: 'linux', Architecture: 'riscv64' };
const steps = ['ADD http://169.254.169.254/ /x'];
const begun: [
  what: string,
  bases: { name: string; platform?: string }[],
  images: Images,
  pattern: RegExp | undefined,
][] = [
  ['is here', [{ name: 'a:1' }], { 'a:1': linux }, undefined],
  [
    'is here with steps of its own',
    [{ name: 'a:1' }],
    { 'a:1': { ...linux, OnBuild: steps } },
    /a:1 has ONBUILD steps/,
  ],
  ['has to come, with such', [{ name: 'a:1' }, { name: 'evil/x' }], { 'a:1': linux }, /evil\/x has ONBUILD steps/],
  ['is nowhere', [{ name: 'nowhere' }], {}, /could not pull nowhere/],
  [
    'is of this platform by name',
    [{ name: 'a:1', platform: `linux/${linux.Architecture}` }, { name: 'a:1' }],
    { 'a:1': linux },
    undefined,
  ],
  ['is of another platform', [{ name: 'a:1', platform: 'linux/riscv64' }], { 'a:1': other }, undefined],
  [
    'has to come of another platform, with such',
    [{ name: 'evil/y', platform: 'linux/riscv64' }],
    { 'evil/y': linux },
    /evil\/y has ONBUILD steps/,
  ],
  [
    'is of two',
    [{ name: 'a:1' }, { name: 'a:1', platform: 'linux/riscv64' }],
    { 'a:1': linux },
    /a:1 for linux\/\w+ and for linux\/riscv64/,
  ],
];
for (const [what, bases, images, pattern] of begun) {
  test(`an image to begin with that ${what} ${pattern === undefined ? 'is built on' : 'is told before the engine begins'}`, async () => {
    const registry = { 'evil/x': { ...linux, OnBuild: steps }, 'evil/y linux/riscv64': { ...other, OnBuild: steps } };
    await using fake = await startEngine({ ...images }, registry);
    const engine = connectDocker({
      socketPath: fake.socketPath,
      cluster,
      fetchBlob: () => Promise.reject(new FlynnError('not_found', 'no blob')),
      scratchDir: tmpdir(),
    });
    const build = { id: 'b1', cache: 'app', dockerfile: 'Dockerfile', args: {}, limits, onText: () => undefined };
    await assert.rejects(
      engine.buildImage({ ...build, bases, context: Readable.from(['x']) }),
      pattern ?? /more memory than its limit/,
    );
    assert.equal(
      fake.asked.some(({ pathname }) => pathname.endsWith('/build')),
      pattern === undefined,
    );
  });
}

function buildOn({ socketPath }: Awaited<ReturnType<typeof startEngine>>): Promise<unknown> {
  const fetchBlob = () => Promise.reject(new FlynnError('not_found', 'no blob'));
  const engine = connectDocker({ socketPath, cluster, fetchBlob, scratchDir: tmpdir() });
  return engine.buildImage({
    id: 'b1',
    cache: 'app',
    dockerfile: 'Dockerfile',
    bases: [],
    args: {},
    limits,
    context: Readable.from(['x']),
    onText: () => undefined,
  });
}

test('a step whose end is heard before that memory ran out is told to have needed too much of it', async () => {
  await using fake = await startEngine();
  const beganMs = Date.now();
  await assert.rejects(
    buildOn(fake),
    (error) => hasCode(error, 'exhausted') && /more memory than its limit of 128 MB/.test(error.message),
  );
  const since = Number(fake.asked.find(({ pathname }) => pathname.endsWith('/events'))?.searchParams.get('since'));
  assert.ok(since * 1_000 >= beganMs - 1, 'nothing is missed, and nothing of a build before is heard');
});

test('the network of a build has a bridge by which rules know its steps, and no addresses that no rule judges', async () => {
  await using fake = await startEngine();
  await assert.rejects(buildOn(fake));
  const made: unknown = JSON.parse(fake.bodies.get('/networks/create') ?? '');
  assert.partialDeepStrictEqual(made, {
    Name: network,
    EnableIPv6: false,
    Options: { 'com.docker.network.bridge.name': buildBridge(network) },
  });
  assert.match(buildBridge(network), /^flb_[0-9a-f]{11}$/);
});

test('what a step writes to a VOLUME is held to the limit of its build', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-volume-'));
  await writeFile(join(folder.path, 'f'), Buffer.alloc(2 * 1024 ** 2, 1));
  const mount = { Type: 'volume', Name: '0f'.repeat(32), Source: folder.path };
  await using fake = await startEngine({}, {}, { Mounts: [mount] });
  const engine = connectDocker({
    socketPath: fake.socketPath,
    cluster,
    fetchBlob: () => Promise.reject(new FlynnError('not_found', 'no blob')),
    scratchDir: tmpdir(),
  });
  const build = { id: 'b1', cache: 'app', dockerfile: 'Dockerfile', bases: [], args: {}, onText: () => undefined };
  const request = { ...build, limits: { ...limits, diskBytes: 1024 ** 2 }, context: Readable.from(['x']) };
  await assert.rejects(
    engine.buildImage(request, { signal: AbortSignal.timeout(60_000) }),
    (error) => hasCode(error, 'exhausted') && /wrote 2 MB to the disk; the limit is 1 MB/.test(error.message),
  );
});
