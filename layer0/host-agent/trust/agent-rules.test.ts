import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { HostRecord } from '@flynn/scheduler/cell';
import { buildRoutes } from '../builds/api.ts';
import { routes } from '../api.ts';
import { jobOf } from '../host-fixture.ts';
import type { Container } from '../engine/engine.ts';
import { installationRoutes } from '../update/installation.ts';
import { agentRules, isEverybodyKnown, keyAlone, withoutIdentity } from './agent-rules.ts';

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

const container = (labels: Record<string, string>, state: Container['state'] = 'running'): Container => ({
  id: 'c',
  name: 'c',
  labels,
  state,
  imageId: 'i',
  tty: false,
  volumes: [],
  createdAtMs: 0,
  isOutOfMemory: false,
});

test('counted are jobs that run, may reach agents, and have no certificate', () => {
  const all = [
    container({ 'flynn.access': 'discovery,agents' }),
    container({ 'flynn.access': 'discovery,agents' }, 'exited'),
    container({ 'flynn.access': 'discovery,agents', 'flynn.identity': 'controller' }),
    container({ 'flynn.access': 'discovery' }),
    container({ 'flynn.resident': 'etcd' }),
  ];
  assert.equal(withoutIdentity(all), 1);
});

test('parts of the platform are closed once every host says that nobody on it comes with a key alone', () => {
  const said = (id: string, keyAlone?: number) =>
    record(id, { withoutIdentity: 0, ...(keyAlone === undefined ? {} : { keyAlone }) });
  const own = said('h1', 0);
  assert.equal(isEverybodyKnown([], own), false, 'nothing is known yet');
  assert.equal(isEverybodyKnown([own, said('h2', 0)], own), true);
  assert.equal(isEverybodyKnown([own, said('h2', 1)], own), false);
  assert.equal(isEverybodyKnown([own, said('h2')], own), false, 'an agent of a version that does not say');
  assert.equal(isEverybodyKnown([own, record('h2')], own), false, 'an agent without certificates');
  assert.equal(isEverybodyKnown([own], said('h1', 1)), false, 'of itself a host knows more than it has told');
});

test('who comes with a key alone is a job of the platform that has no certificate, or does not always show it', () => {
  const labels = { 'flynn.job': 'h1-old', 'flynn.access': 'discovery,services' };
  const known = { ...labels, 'flynn.identity': 'router' };
  const always = { ...known, 'flynn.always-identified': '1' };
  const count = (...all: Container[]) =>
    keyAlone(all, [jobOf('new', { identity: 'router', isAlwaysIdentified: true })]);
  assert.equal(count(container(labels)), 1);
  assert.equal(count(container(known)), 1, 'a router of before passes requests on in clear');
  assert.equal(count(container({ ...labels, 'flynn.job': 'h1-new' })), 1, 'its agent gave it none');
  assert.equal(count(container(labels, 'created')), 1, 'what it needs has to be there when it begins');
  assert.equal(count(container({ 'flynn.job': 'h1-ancient' })), 1, 'of before containers were told what they may');
  assert.equal(count(container(always), container({ ...known, 'flynn.job': 'h1-new' })), 0);
  assert.equal(count(container({ ...labels, 'flynn.access': '' }), container({ 'flynn.resident': 'etcd' })), 0);
  assert.equal(count(container(labels, 'exited')), 0);
});
