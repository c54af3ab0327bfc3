import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { ContainerTable } from './container-table.ts';
import { createMemoryEngine } from './memory.ts';
import { isSingletonContainer } from './fence.ts';
import { Residents, residentSchema, residentSpec } from './resident.ts';

const host = { cluster: 'test', hostId: 'h1', externalAddress: '127.0.0.1', gateway: '127.0.0.1', networkName: 'n' };

function specOf(name: string, env: Record<string, string> = {}): string {
  const template = {
    image: { name: 'base' },
    command: ['sh', '-c', 'exec sleep 10000'],
    hostNetwork: true,
    env,
    resources: { memoryBytes: 1_000_000, cpuMillis: 0 },
  };
  return JSON.stringify({ name, template, binds: [{ source: '/var/lib/etcd', path: '/data' }] });
}

test('resident jobs run from disk alone, come back after a power cut, and follow their files', async () => {
  const dir = await mkdtemp(join(tmpdir(), 'flynn-resident-'));
  const engine = createMemoryEngine({ cluster: 'test' });
  const log = silentLogger();
  const open = () => {
    const tasks = new TaskGroup();
    const containers = new ContainerTable({ engine, log });
    const residents = new Residents({ dir, engine, containers, host, log });
    tasks.run('containers', (signal) => containers.run(signal));
    tasks.run('residents', (signal) => residents.run(signal));
    return tasks;
  };
  const runningNames = async () => (await engine.list()).filter((c) => c.state === 'running').map((c) => c.name);
  const reach = (what: string, expected: string[]) =>
    waitFor(async () => (await runningNames()).sort().join() === expected.join(), { what, deadlineMs: 60_000 });

  await writeFile(join(dir, 'etcd.json'), specOf('etcd'));
  await writeFile(join(dir, 'broken.json'), '{');
  let tasks = open();
  await reach('etcd to run', ['flynn-test-resident-etcd']);
  const [first] = await engine.list();
  await tasks.stop();
  engine.losePower();
  await reach('the power to be off', []);

  tasks = open();
  await reach('etcd to run again', ['flynn-test-resident-etcd']);
  assert.equal((await engine.list())[0]?.id, first?.id);
  await tasks.stop();

  await writeFile(join(dir, 'etcd.json'), specOf('etcd', { CHANGED: 'yes' }));
  tasks = open();
  await waitFor(async () => (await engine.list()).some((c) => c.id !== first?.id && c.state === 'running'), {
    what: 'the changed spec to run',
    deadlineMs: 60_000,
  });
  await rm(join(dir, 'etcd.json'));
  await reach('it to be gone with its file', []);
  assert.equal((await engine.list()).length, 0);
  await tasks.stop();
  await rm(dir, { recursive: true });
});

test('a resident job with a volume is not stopped for the lease: no host has one before the store is back', () => {
  const resources = { memoryBytes: 1_000_000, cpuMillis: 0 };
  const template = { image: { name: 'base' }, volumes: [{ name: 'etcd', path: '/data' }], resources };
  const { labels } = residentSpec(residentSchema.parse({ name: 'etcd', template }), 'base', host);
  assert.equal(isSingletonContainer({ labels }), false);
  const { 'flynn.resident': _resident, ...ofAnyJob } = labels;
  assert.equal(isSingletonContainer({ labels: ofAnyJob }), true);
});
