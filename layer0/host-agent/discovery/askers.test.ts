import assert from 'node:assert/strict';
import { request } from 'node:http';
import { connect } from 'node:net';
import { once } from 'node:events';
import { test } from 'node:test';
import { createMemoryRegistry } from '@flynn/discovery/memory-registry';
import { silentLogger } from '@flynn/kit/log';
import { freePort } from '@flynn/kit/testing-ports';
import { waitFor } from '@flynn/kit/retry';
import type { Container } from '../engine/engine.ts';
import { type Asker, askerAt, checkMayChange } from './askers.ts';
import { serveDiscovery } from './servers.ts';

const gateway = '127.0.0.2';

function container(address: string, labels: Record<string, string>, state: Container['state'] = 'running'): Container {
  const more = { createdAtMs: 0, imageId: '', tty: false, volumes: [], isOutOfMemory: false };
  return { id: address, name: address, labels, state, address, ...more };
}

const grouped = { 'flynn.group': 'g', 'flynn.access': 'discovery' };
const ofApp = { ...grouped, 'flynn.meta.flynn.app': 'a1', 'flynn.meta.flynn.system': 'false' };
const containers = [
  container('127.0.0.10', { ...ofApp, 'flynn.identity': 'slug-builder', 'flynn.meta.flynn.type': 'build' }),
  container('127.0.0.11', ofApp),
  container('127.0.0.12', { ...grouped, 'flynn.meta.flynn.app': 'c', 'flynn.meta.flynn.system': 'true' }),
  container('127.0.0.13', { ...grouped, 'flynn.identity': 'controller', 'flynn.meta.flynn.bootstrap': 'web' }),
  container('127.0.0.14', grouped),
  container('127.0.0.15', grouped, 'exited'),
  // Not ours, or of a version before there was such a label.
  container('127.0.0.16', {}),
  // Ended, and not known to have: the address is the next one's.
  container('127.0.0.18', grouped),
  container('127.0.0.18', ofApp),
  container('127.0.0.19', grouped),
  container('127.0.0.19', grouped),
];

test('who asks is known by the address', () => {
  const expected: Record<string, Asker> = {
    '127.0.0.1': 'host',
    [gateway]: 'host',
    '127.0.0.10': 'app',
    '127.0.0.11': 'app',
    '127.0.0.12': 'part',
    '127.0.0.13': 'part',
    '127.0.0.14': 'workload',
    '127.0.0.15': 'unknown',
    '127.0.0.16': 'nobody',
    '127.0.0.17': 'unknown',
    '127.0.0.18': 'unknown',
    '127.0.0.19': 'workload',
  };
  for (const [address, asker] of Object.entries(expected)) {
    assert.equal(askerAt(address, gateway, containers), asker, address);
    const mayChange = asker === 'host' || asker === 'workload';
    if (mayChange) checkMayChange(asker);
    else assert.throws(() => checkMayChange(asker), { code: asker === 'unknown' ? 'unavailable' : 'denied' });
  }
});

async function serving(known: () => readonly Container[] = () => containers) {
  const stop = new AbortController();
  const registry = createMemoryRegistry({ log: silentLogger() });
  const port = await freePort();
  const served = { gateway, containers: known, log: silentLogger(), signal: stop.signal, port };
  await serveDiscovery(registry, served);
  return {
    registry,
    port,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await registry[Symbol.asyncDispose]();
    },
  };
}

async function statusOf(port: number, from: string, method: string, path: string, body?: object): Promise<number> {
  const options = { host: gateway, port, localAddress: from, method, path, headers: {}, agent: false as const };
  if (body !== undefined) options.headers = { 'content-type': 'application/json' };
  const asking = request(options);
  asking.end(body === undefined ? undefined : JSON.stringify(body));
  const [response] = await once(asking, 'response');
  response.resume();
  return Number(response.statusCode);
}

test('a build reads what there is and changes nothing; the host and workloads without an app announce what is theirs', async () => {
  await using world = await serving();
  const { registry, port } = world;
  const changes: [method: string, path: string, body?: object][] = [
    ['PUT', '/services/db/instances/a', { address: '10.0.0.1:80' }],
    ['PUT', '/services/db/leader', { by: 'manual', instance: 'a' }],
    ['PUT', '/services/db/meta', { data: 'x' }],
    ['DELETE', '/services/db/meta'],
    ['DELETE', '/services/db/instances/a'],
  ];
  const unknown = ['127.0.0.15', '127.0.0.17', '127.0.0.18'];
  for (const from of ['127.0.0.10', '127.0.0.11', '127.0.0.12', '127.0.0.13', '127.0.0.16', ...unknown]) {
    const refusal = unknown.includes(from) ? 503 : 403;
    for (const [method, path, body] of changes) {
      assert.equal(await statusOf(port, from, method, path, body), refusal, `${from} ${method} ${path}`);
    }
    assert.equal(await statusOf(port, from, 'GET', '/services/db/instances'), 200);
  }
  assert.deepEqual(registry.services(), []);
  for (const from of ['127.0.0.1', gateway, '127.0.0.14']) {
    for (const [method, path, body] of changes) {
      const status = await statusOf(port, from, method, path, body);
      assert.ok(status === 200 || status === 204, `${from} ${method} ${path}: ${status}`);
    }
  }
});

test('a program that asks before its agent knows of its container is told to ask again, not that it may not', async () => {
  let known: readonly Container[] = [];
  await using world = await serving(() => known);
  const announce = () =>
    statusOf(world.port, '127.0.0.14', 'PUT', '/services/db/instances/a', { address: '127.0.0.14:80' });
  assert.equal(await announce(), 503);
  known = containers;
  assert.equal(await announce(), 200);
});

test('a job has 32 connections at a time; the host and the platform have as many as they need', async () => {
  await using world = await serving();
  const { port } = world;
  const open = (from: string, count: number) =>
    Array.from({ length: count }, () => {
      const socket = connect({ host: gateway, port, localAddress: from });
      socket.on('error', () => undefined).resume();
      socket.write('GET /events HTTP/1.1\r\nhost: x\r\n\r\n');
      return socket;
    });
  const builds = open('127.0.0.10', 40);
  const others = [...open('127.0.0.1', 40), ...open('127.0.0.12', 40)];
  const isCut = () => builds.filter(({ closed }) => closed).length === 8;
  await waitFor(isCut, { what: 'those beyond to be cut', deadlineMs: 30_000, intervalMs: 5 });
  const isAnswered = () => others.every(({ bytesRead }) => bytesRead > 0);
  await waitFor(isAnswered, { what: 'the others to be answered', deadlineMs: 30_000, intervalMs: 5 });
  assert.ok(others.every(({ closed }) => !closed));
  builds.find(({ closed }) => !closed)?.destroy();
  const hasRoom = () =>
    statusOf(port, '127.0.0.10', 'GET', '/services').then(
      (status) => status === 200,
      () => false,
    );
  await waitFor(hasRoom, { what: 'room for another one', deadlineMs: 30_000 });
  for (const socket of [...builds, ...others]) socket.destroy();
});
