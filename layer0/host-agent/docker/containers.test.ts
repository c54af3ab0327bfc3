import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempDisposable } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import Docker from 'dockerode';
import { hasCode } from '@flynn/kit/errors';
import { createBody, createContainer, inspectContainer, listContainers } from './containers.ts';
import type { ContainerSpec } from '../engine/engine.ts';

const Labels = { 'flynn.cluster': 'test' };
const Networks = { flynn0: { IPAddress: '100.100.0.2' } };
const rowOf = (Id: string) => ({
  Id,
  Names: [`/${Id}`],
  Image: 'base',
  ImageID: 'sha256:1',
  Created: 1_700_000_000,
  State: 'running',
  Labels,
  HostConfig: { NetworkMode: 'flynn0' },
  NetworkSettings: { Networks },
  Mounts: [
    { Type: 'volume', Name: 'data', Source: '/volumes/data' },
    { Type: 'bind', Source: '/state/node/x' },
  ],
});
const inspected = {
  Id: 'good',
  Name: '/good',
  Created: '2023-11-14T22:13:20Z',
  State: { Status: 'running', Pid: 1, Error: '', StartedAt: '2023-11-14T22:13:21Z', FinishedAt: '' },
  Image: 'sha256:1',
  Mounts: [],
  Config: { Tty: false, Labels },
  NetworkSettings: { Networks },
};

test('a container that the engine hangs over, or cannot tell of, keeps nobody from the others', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const rows = ['stuck', 'broken', 'good'].map(rowOf);
  const server = createServer((request, response) => {
    const path = request.url ?? '';
    if (path.includes('/stuck/')) return;
    const [code, answer] = path.includes('/broken/')
      ? [500, { message: 'RWLayer of container broken is unexpectedly nil' }]
      : [200, path.includes('/good/') ? inspected : rows];
    response.writeHead(code, { 'content-type': 'application/json' });
    response.end(JSON.stringify(answer));
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const context = { docker: new Docker({ socketPath }), cluster: 'test' };
  try {
    // Long enough for those that do answer, on a machine that stands still.
    const found = new Map((await listContainers(context, { deadlineMs: 8_000 })).map((one) => [one.id, one]));
    assert.equal(found.get('good')?.startedAtMs, 1_700_000_001_000);
    for (const id of ['stuck', 'broken']) {
      const { error, ...rest } = found.get(id) ?? {};
      assert.deepEqual(rest, {
        id,
        name: id,
        labels: Labels,
        state: 'running',
        address: '100.100.0.2',
        imageId: 'sha256:1',
        tty: false,
        volumes: ['data'],
        binds: ['/state/node/x'],
        createdAtMs: 1_700_000_000_000,
        isOutOfMemory: false,
        isUnclear: true,
      });
      assert.match(error ?? '', id === 'stuck' ? /took too long/ : /unexpectedly nil/);
    }
    server.closeAllConnections();
    server.close();
    await assert.rejects(listContainers(context, {}), (error) => hasCode(error, 'unavailable'));
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('a crowd that the engine hangs over is listed within the time of a few: whoever gives up in between would never have a list', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  // The good one comes first: behind the crowd it is waited for so shortly that a machine which stands still loses it.
  const rows = ['good', ...Array.from({ length: 40 }, (_, at) => `stuck${at}`)].map(rowOf);
  const server = createServer((request, response) => {
    if (request.url?.includes('/stuck') === true) return;
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify(request.url?.includes('/good/') === true ? inspected : rows));
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const context = { docker: new Docker({ socketPath }), cluster: 'test' };
  try {
    // Forty by eights, each for the whole of its time, would take 15 s.
    const found = await listContainers(context, { deadlineMs: 3_000, signal: AbortSignal.timeout(13_000) });
    assert.equal(found.filter(({ isUnclear }) => isUnclear === true).length, 40);
    assert.equal(found.length, 41);
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

test('that memory ran out is heard a moment after the end: the first look of that moment is not the last', async (t) => {
  // It is that moment however long an answer takes.
  const endedAtMs = Date.parse('2026-01-01T00:00:00Z');
  t.mock.timers.enable({ apis: ['Date'], now: endedAtMs + 100 });
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const looks = { late: 0, never: 0, before: 0 };
  const server = createServer((request, response) => {
    const name = (['late', 'never', 'before'] as const).find((one) => request.url?.includes(`/${one}/`)) ?? 'never';
    looks[name] += 1;
    const State = {
      ...inspected.State,
      Status: 'exited',
      ExitCode: 137,
      OOMKilled: name === 'late' && looks.late > 1,
      FinishedAt: new Date(endedAtMs - (name === 'before' ? 60_000 : 0)).toISOString(),
    };
    response.writeHead(200, { 'content-type': 'application/json' });
    response.end(JSON.stringify({ ...inspected, State }));
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  const context = { docker: new Docker({ socketPath }), cluster: 'test' };
  try {
    const isOutOfMemory = async (id: string) => (await inspectContainer(context, id, {})).isOutOfMemory;
    assert.equal(await isOutOfMemory('late'), true);
    assert.equal(await isOutOfMemory('never'), false);
    assert.equal(await isOutOfMemory('before'), false);
    assert.deepEqual(looks, { late: 2, never: 2, before: 1 });
  } finally {
    server.closeAllConnections();
    server.close();
  }
});

const plain: ContainerSpec = {
  name: 'x',
  labels: {},
  imageRef: 'plain:1',
  hostname: 'x',
  env: {},
  network: { type: 'host' },
  volumes: [],
  tty: false,
  stdin: false,
  limits: {},
};

test('a container has the name servers it is given, and no search domains of its host', () => {
  const network = { type: 'bridge' as const, name: 'flynn0', dns: ['100.100.0.1'] };
  const { Dns, DnsSearch } = createBody({ ...plain, network }, 'test').HostConfig ?? {};
  assert.deepEqual({ Dns, DnsSearch }, { Dns: ['100.100.0.1'], DnsSearch: ['.'] });
  const ofHost = createBody(plain, 'test').HostConfig;
  assert.deepEqual(ofHost?.DnsSearch, undefined, 'what is in the network of its host has what that has');
});

test('an image that has no configuration is run as any other', async () => {
  await using folder = await mkdtempDisposable(join(tmpdir(), 'flynn-engine-'));
  const server = createServer((request, response) => {
    const isImage = request.url?.startsWith('/images/') === true;
    request.resume();
    response.writeHead(isImage ? 200 : 201, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isImage ? { Id: 'sha256:1', Config: null } : { Id: 'made' }));
  });
  const socketPath = join(folder.path, 'docker.sock');
  await once(server.listen(socketPath), 'listening');
  try {
    assert.equal(await createContainer({ docker: new Docker({ socketPath }), cluster: 'test' }, plain, {}), 'made');
  } finally {
    server.closeAllConnections();
    server.close();
  }
});
