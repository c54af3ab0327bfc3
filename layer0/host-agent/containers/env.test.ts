import assert from 'node:assert/strict';
import { test } from 'node:test';
import { environmentOf } from './env.ts';
import { jobOf } from '../host-fixture.ts';
import { containerSpecOf } from './spec.ts';

const host = { hostId: 'h1', externalAddress: '10.0.0.1', gateway: '100.100.0.1' };

test('a job overrides the base and the host, but not its name and its ports', () => {
  const env = { PATH: '/app/bin', FLYNN_HOST_ID: 'mine', PORT: '1', FLYNN_JOB_ID: 'mine', HOSTNAME: 'mine', APP: 'x' };
  const job = jobOf('a', {
    env,
    ports: [
      { port: 5000, protocol: 'tcp' },
      { port: 6000, protocol: 'udp' },
    ],
  });
  assert.deepEqual(environmentOf(job, host), {
    PATH: '/app/bin',
    FLYNN_HOST_ID: 'mine',
    FLYNN_EXTERNAL_ADDRESS: '10.0.0.1',
    FLYNN_DISCOVERY_URL: 'http://100.100.0.1:1111',
    APP: 'x',
    PORT: '5000',
    PORT_0: '5000',
    PORT_1: '6000',
    FLYNN_JOB_ID: 'h1-a',
    HOSTNAME: 'h1-a',
  });
});

test('a job with a keyspace is told where its door is and where its keys lie, and not by what it says itself', () => {
  const keyspace = { name: 'shop-db', keyDigest: `sha256:${'0'.repeat(64)}` };
  const env = environmentOf(jobOf('a', { keyspace, env: { FLYNN_KEYSPACE_NAME: 'mine' } }), host);
  assert.equal(env['FLYNN_KEYSPACE_URL'], 'http://100.100.0.1:1116');
  assert.equal(env['FLYNN_KEYSPACE_NAME'], 'shop-db');
  assert.equal(env['FLYNN_KEYSPACE_PREFIX'], '/flynn/keyspaces/shop-db/');
  assert.equal(JSON.stringify(env).includes('sha256'), false);
});

test('a terminal says so, and without ports there is no PORT of ours', () => {
  const env = environmentOf(jobOf('a', { tty: true, env: { PORT: '80' } }), host);
  assert.equal(env['TERM'], 'xterm');
  assert.equal(env['PORT'], '80');
  assert.equal(environmentOf(jobOf('a'), host)['TERM'], undefined);
});

test('a container is named, labelled, limited and connected for its job', () => {
  const job = jobOf('a', { meta: { app: 'x' }, volumes: [{ name: 'db', path: '/data' }] }, { version: 'v1' });
  const spec = containerSpecOf(job, 'ref', { ...host, cluster: 'c', networkName: 'flynn0' });
  assert.equal(spec.name, 'flynn-c-h1-a');
  assert.deepEqual(spec.labels, {
    'flynn.meta.app': 'x',
    'flynn.job': 'h1-a',
    'flynn.workload': 'w1',
    'flynn.version': 'v1',
    'flynn.group': 'w1',
    'flynn.links': '',
    'flynn.access': '',
    'flynn.keyspace': '',
    'flynn.address': '10.0.0.1',
    'flynn.singleton': '1',
  });
  assert.deepEqual(spec.volumes, [{ name: 'flynn-c.db', path: '/data', labels: { 'flynn.meta.app': 'x' } }]);
  assert.deepEqual(spec.network, { type: 'bridge', name: 'flynn0', dns: ['100.100.0.1'] });
  assert.deepEqual(spec.limits, { memoryBytes: 67_108_864, cpuMillis: 100, pids: 2_048, files: 10_000 });
  const inHost = containerSpecOf(jobOf('a', { hostNetwork: true }), 'ref', {
    ...host,
    cluster: 'c',
    networkName: 'flynn0',
  });
  assert.deepEqual(inHost.network, { type: 'host' });
});

test('a part of the platform weighs more on busy processors than what is set aside for it; what it builds and an app do not', () => {
  const settings = { ...host, cluster: 'c', networkName: 'flynn0' };
  const cpuOf = (more: Parameters<typeof jobOf>[1]) =>
    containerSpecOf(jobOf('a', more), 'ref', settings).limits.cpuMillis;
  assert.equal(cpuOf({ identity: 'router' }), 4_000);
  assert.equal(cpuOf({ identity: 'router', limits: { memoryBytes: 1, cpuMillis: 6_000 } }), 6_000);
  assert.equal(cpuOf({ identity: 'slug-builder', restart: 'never' }), 100);
  assert.equal(cpuOf({}), 100);
});
