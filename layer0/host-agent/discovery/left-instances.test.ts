import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryRegistry } from '@flynn/discovery/memory-registry';
import type { Container } from '../engine/engine.ts';
import { label } from '../engine/labels.ts';
import { withdrawLeft } from './left-instances.ts';

const log = silentLogger();

function containerOf(jobId: string, state: Container['state']): Container {
  const labels = { [label.job]: jobId };
  return {
    id: jobId,
    name: jobId,
    labels,
    state,
    createdAtMs: 0,
    imageId: '',
    tty: false,
    volumes: [],
    isOutOfMemory: false,
  };
}

test('what was announced of jobs that ended while no agent was here leaves discovery, and nothing else does', async () => {
  await using registry = createMemoryRegistry({ log });
  const announce = (id: string, attributes: Record<string, string>) =>
    registry.register({ service: 'web', id, address: '10.0.0.1:80', attributes });
  const here = { host: 'h1', [label.group]: 'web' };
  await announce('h1-ended', here);
  await announce('h1-gone', here);
  await announce('h1-runs', here);
  await announce('h2-elsewhere', { ...here, host: 'h2' });
  await announce('by-hand', { host: 'h1' });
  const containers = [containerOf('h1-ended', 'exited'), containerOf('h1-runs', 'running')];
  let looks = 0;
  const table = {
    get isCurrent() {
      looks += 1;
      return looks > 1;
    },
    all: () => (table.isCurrent ? containers : []),
  };
  await withdrawLeft({ registry, containers: table, hostId: 'h1', log }, new AbortController().signal);
  assert.deepEqual(
    registry.instances('web').map(({ id }) => id),
    ['h1-runs', 'h2-elsewhere', 'by-hand'],
  );
});

test('a job that was started again meanwhile keeps its announcement', async () => {
  await using registry = createMemoryRegistry({ log });
  const attributes = { host: 'h1', [label.group]: 'web' };
  for (const id of ['h1-a', 'h1-b'])
    await registry.register({ service: 'web', id, address: '10.0.0.1:80', attributes });
  let containers = [containerOf('h1-a', 'exited'), containerOf('h1-b', 'exited')];
  const deregister = async (service: string, id: string) => {
    await registry.deregister(service, id);
    containers = [containerOf('h1-b', 'running')];
  };
  const deps = { registry: { all: () => registry.all(), deregister }, hostId: 'h1', log };
  const table = { isCurrent: true, all: () => containers };
  await withdrawLeft({ ...deps, containers: table }, new AbortController().signal);
  assert.deepEqual(
    registry.instances('web').map(({ id }) => id),
    ['h1-b'],
  );
});
