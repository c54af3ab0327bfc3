import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { metricsRoute } from '@flynn/kit/metrics-server';
import { metricsToken } from '@flynn/kit/metrics-token';
import type { JobStatus } from '@flynn/scheduler/cell';
import { platform } from '../platform/api.ts';
import { startTestController } from '../testing.ts';
import { health } from './api.ts';
import { targetsOf } from './targets.ts';

test('the controller tells the cluster in figures, to who may look at it and to monitoring', async () => {
  await using world = await startTestController({ hosts: 2 });
  await world.deployApp('shop', { web: { ports: [{ port: 8080 }] } });
  await world.deps.deployments.reached((await world.store.list('/flynn/resource/deployment/')).revision);
  await world.web.health.watch(new AbortController().signal);
  const token = metricsToken(world.key);
  await using monitoring = new HttpClient({ baseUrl: world.url, key: token, name: 'the controller' });
  const chunks: Buffer[] = [];
  for await (const chunk of await monitoring.stream(metricsRoute, {})) chunks.push(chunk as Buffer);
  const text = Buffer.concat(chunks).toString();
  assert.match(text, /^flynn_cluster_hosts 2$/m);
  assert.match(text, /^flynn_cluster_deployments\{state="complete"\} 1$/m);
  assert.match(text, /^flynn_cluster_findings\{severity="\w+",check="\w+"\} \d+$/m);
  assert.match(text, /^flynn_cluster_component_healthy\{component="host agent"\} 1$/m);
  const targets = await monitoring.call(health.targets, {});
  assert.deepEqual(
    targets.map(({ labels }) => labels),
    [
      { component: 'host-agent', host: 'host1' },
      { component: 'host-agent', host: 'host2' },
    ],
  );
  await assert.rejects(monitoring.call(platform.cluster, {}), (error) => hasCode(error, 'unauthenticated'));
});

test('parts of the platform are found where they serve their figures', () => {
  const host = { id: 'h1', address: '10.0.0.1', apiPort: 1113, capacity: { memoryBytes: 1, cpuMillis: 1 } };
  const status = (app: string, type: string, change: Partial<JobStatus> = {}): JobStatus => ({
    id: `h1-${app}`,
    hostId: 'h1',
    workloadId: 'w',
    version: 'v',
    meta: { 'flynn.app_name': app, 'flynn.type': type },
    state: 'running',
    isFinal: false,
    address: '100.100.0.9',
    restarts: 0,
    createdAt: 0,
    ...change,
  });
  const found = targetsOf(
    [{ ...host, attributes: {}, cordoned: false, startedAt: 0 }],
    [
      status('controller', 'web'),
      status('controller', 'worker'),
      status('router', 'web'),
      status('blobstore', 'web', { state: 'starting' }),
      status('slug-builder', 'build'),
    ],
  );
  assert.deepEqual(
    found.map(({ targets, labels }) => [targets[0], labels['component'], labels['flynn_job']]),
    [
      ['10.0.0.1:1113', 'host-agent', undefined],
      ['100.100.0.9:3000', 'controller-web', 'h1-controller'],
      ['100.100.0.9:9117', 'controller-worker', 'h1-controller'],
      ['10.0.0.1:1114', 'router-web', 'h1-router'],
    ],
  );
});
