import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import { DiskMeter } from './meter.ts';
import type { Container } from '../engine/engine.ts';
import { jobOf, openHost } from '../host-fixture.ts';
import { createMemoryEngine } from '../engine/memory.ts';

const container = (id: string, labels: Record<string, string> = {}): Container => ({
  id,
  name: id,
  labels,
  state: 'running',
  imageId: 'i',
  tty: false,
  volumes: [],
  createdAtMs: 0,
  isOutOfMemory: false,
});

test('who wrote more than its limit is told of, and nobody is measured again at once', async () => {
  const measured: string[] = [];
  const exceeded: [string, number, number][] = [];
  const written = new Map([
    ['a', 101],
    ['b', 100],
    ['c', 1_000],
  ]);
  const meter = new DiskMeter({
    engine: {
      async diskUse(id) {
        measured.push(id);
        return { writableBytes: written.get(id) ?? 0, writableFiles: 1, volumeBytes: 5 };
      },
    },
    containers: {
      isCurrent: true,
      all: () => [
        container('a', { 'flynn.temp-disk': '100' }),
        container('b', { 'flynn.temp-disk': '100' }),
        container('c'),
        { ...container('d'), state: 'exited' },
      ],
    },
    onExceeded: ({ id }, { used, limit }) => void exceeded.push([id, used, limit]),
    log: silentLogger(),
  });
  const { signal } = new AbortController();
  await meter.measure(signal);
  await meter.measure(signal);
  assert.deepEqual(measured, ['a', 'b'], 'c has no limit, and time');
  assert.deepEqual(exceeded, [['a', 101, 100]]);
  assert.deepEqual(meter.useOf('b'), { writableBytes: 100, writableFiles: 1, volumeBytes: 5 });
  assert.equal(meter.useOf('c'), undefined);
  assert.equal(meter.useOf('d'), undefined);
});

test('a job without a limit has ten GiB, or a quarter of the disk, and is measured soon once that is short', async () => {
  const measured: string[] = [];
  const exceeded: [string, number][] = [];
  const room = { usedPercent: 79, totalBytes: 1_000 };
  const jobs = ['a', 'b'].map((id) => container(id, { 'flynn.job': id }));
  const resident = container('etcd', { 'flynn.job': 'resident-etcd', 'flynn.resident': 'etcd' });
  const meterOf = () =>
    new DiskMeter({
      engine: {
        async diskUse(id) {
          measured.push(id);
          return { writableBytes: id === 'a' ? 250 : 251, writableFiles: 1, volumeBytes: 0 };
        },
      },
      containers: { isCurrent: true, all: () => [...jobs, resident, container('build')] },
      onExceeded: ({ id }, { limit }) => void exceeded.push([id, limit]),
      room: async () => room,
      log: silentLogger(),
    });
  const { signal } = new AbortController();
  const meter = meterOf();
  await meter.measure(signal);
  assert.deepEqual(measured, []);
  room.usedPercent = 80;
  await meter.measure(signal);
  await meter.measure(signal);
  assert.deepEqual(measured, ['a', 'b', 'etcd', 'build']);
  assert.deepEqual(exceeded, [['b', 250]], 'what is nobody’s job has no limit');
  room.totalBytes = 1_000 * 2 ** 30;
  await meterOf().measure(signal);
  assert.deepEqual(exceeded, [['b', 250]]);
});

test('the limit is the job’s, whatever a container of a version before has from its image', async () => {
  const exceeded: [string, number][] = [];
  const meter = new DiskMeter({
    engine: { diskUse: async () => ({ writableBytes: 300, writableFiles: 1, volumeBytes: 0 }) },
    containers: {
      isCurrent: true,
      all: () => ['a', 'b'].map((id) => container(id, { 'flynn.job': id, 'flynn.temp-disk': '1000000' })),
    },
    onExceeded: ({ id }, { limit }) => void exceeded.push([id, limit]),
    room: async () => ({ usedPercent: 90, totalBytes: 1_000 }),
    templateOf: ({ id }) => (id === 'a' ? {} : { tempDiskBytes: 200 }),
    log: silentLogger(),
  });
  await meter.measure(new AbortController().signal);
  assert.deepEqual(exceeded, [
    ['a', 250],
    ['b', 200],
  ]);
});

test('who makes files beyond what the disk has for one is told of, however small they are', async () => {
  const exceeded: unknown[] = [];
  const meter = new DiskMeter({
    engine: { diskUse: async () => ({ writableBytes: 4_096, writableFiles: 150_001, volumeBytes: 0 }) },
    containers: { isCurrent: true, all: () => [container('a', { 'flynn.job': 'a' })] },
    onExceeded: ({ id }, excess) => void exceeded.push([id, excess]),
    room: async () => ({ usedPercent: 80, totalBytes: 40 * 2 ** 30, totalFiles: 600_000 }),
    log: silentLogger(),
  });
  await meter.measure(new AbortController().signal);
  assert.deepEqual(exceeded, [['a', { of: 'files', used: 150_001, limit: 150_000 }]]);
});

test('what cannot be measured in time is not measured all the time', async () => {
  const measured: string[] = [];
  const meter = new DiskMeter({
    engine: {
      async diskUse(id) {
        measured.push(id);
        await delay(50);
        throw new FlynnError('timeout', 'it took too long');
      },
    },
    containers: { isCurrent: true, all: () => [container('a', { 'flynn.temp-disk': '100' })] },
    onExceeded: () => assert.fail(),
    log: silentLogger(),
  });
  const { signal } = new AbortController();
  await meter.measure(signal);
  await meter.measure(signal);
  assert.deepEqual(measured, ['a']);
});

test('a job that wrote more than its limit is stopped, told why, and started again as after a crash', async () => {
  const engine = createMemoryEngine();
  const store = createMemoryStore();
  const agent = await openHost({ engine, store });
  const job = jobOf('writer', { tempDiskBytes: 100 });
  const message = 'killed: wrote 1 MiB outside its volumes (limit 1 MiB)';
  const meter = new DiskMeter({
    engine: { diskUse: async () => ({ writableBytes: 101, writableFiles: 1, volumeBytes: 0 }) },
    containers: agent.containers,
    onExceeded: () => agent.host.jobs.update(job.id, (was) => ({ ...was, stopCause: { type: 'disk_full', message } })),
    log: silentLogger(),
  });
  try {
    await agent.assign([job]);
    await agent.reach(job, 'running', (s) => s.state === 'running');
    const [full] = await engine.list();
    await meter.measure(new AbortController().signal);
    const again = await agent.reach(job, 'running again', (s) => s.state === 'running' && s.restarts > 0);
    assert.equal(again.isFinal, false);
    assert.match(again.lastError ?? '', /^killed: wrote 1 MiB/);
    const now = await engine.list();
    assert.equal(now.length, 1);
    assert.notEqual(now[0]?.id, full?.id, 'what it wrote is gone with its container');
  } finally {
    await agent.stop();
    engine.losePower();
    await store.close();
  }
});
