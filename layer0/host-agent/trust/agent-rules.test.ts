import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostRecord } from '@flynn/scheduler/cell';
import { buildRoutes } from '../api-builds.ts';
import { routes } from '../api.ts';
import type { Container } from '../engine.ts';
import { installationRoutes } from '../installation.ts';
import { agentRules, withoutIdentity } from './agent-rules.ts';

const record = (id: string, mutual?: HostRecord['mutual']): HostRecord => ({
  id,
  address: '192.0.2.1',
  apiPort: 1113,
  capacity: { memoryBytes: 1, cpuMillis: 1 },
  attributes: {},
  cordoned: false,
  startedAt: 0,
  ...(mutual === undefined ? {} : { mutual }),
});

test('hosts and the controller may do what is asked of a host, the slug builder build, and no other part of the platform anything', () => {
  const { admits } = agentRules(() => []);
  const may = (peer: string) => [routes.exec, buildRoutes.build, routes.image].map((route) => admits(peer, route));
  assert.deepEqual(may('flynn:host/h2'), [true, true, true]);
  assert.deepEqual(may('flynn:app/controller'), [true, true, true]);
  assert.deepEqual(may('flynn:app/slug-builder'), [false, true, true], 'what was built is read to be stored');
  for (const peer of ['flynn:app/blobstore', 'flynn:app/router', 'flynn:app/controllers', 'flynn:hosts/h1', '']) {
    assert.deepEqual(may(peer), [false, false, false], peer);
  }
});

test('what a host runs is changed by hosts only', () => {
  const { admits } = agentRules(() => []);
  for (const route of Object.values(installationRoutes)) {
    assert.equal(admits('flynn:host/h2', route), true);
    for (const peer of ['flynn:app/controller', 'flynn:app/slug-builder']) assert.equal(admits(peer, route), false);
  }
});

test('a key alone is enough until every host and every job that may reach agents can prove who it is', () => {
  const isClosed = (...records: HostRecord[]) => agentRules(() => records).isClosed();
  const good = { withoutIdentity: 0 };
  assert.equal(isClosed(), false);
  assert.equal(isClosed(record('h1', good), record('h2')), false);
  assert.equal(isClosed(record('h1', good), record('h2', { withoutIdentity: 1 })), false);
  assert.equal(isClosed(record('h1', good), record('h2', good)), true);
});

test('counted are jobs that run, may reach agents, and have no certificate', () => {
  const container = (labels: Record<string, string>, state: Container['state'] = 'running'): Container => ({
    id: 'c',
    name: 'c',
    labels,
    state,
    imageId: 'i',
    tty: false,
    createdAtMs: 0,
    isOutOfMemory: false,
  });
  const all = [
    container({ 'flynn.access': 'discovery,agents' }),
    container({ 'flynn.access': 'discovery,agents' }, 'exited'),
    container({ 'flynn.access': 'discovery,agents', 'flynn.identity': 'controller' }),
    container({ 'flynn.access': 'discovery' }),
    container({ 'flynn.resident': 'etcd' }),
  ];
  assert.equal(withoutIdentity(all), 1);
});
