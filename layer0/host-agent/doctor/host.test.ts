import assert from 'node:assert/strict';
import { test } from 'node:test';
import { HostDoctor } from './host.ts';
import type { HostDoctorDeps, Readings } from './host.ts';
import { hostsText } from './text.ts';
import type { KernelCounts } from './limits.ts';

const { signal } = new AbortController();

const counts: KernelCounts = {
  files: { used: 1, limit: 100 },
  connections: undefined,
  inotifyInstances: { used: 0, limit: 128 },
  threads: { used: 1, limit: 100 },
  memory: { totalBytes: 1_000, availableBytes: 250, stalledPercent: 0 },
};

const machine: Readings = {
  disks: async () => [
    {
      holds: 'its data',
      path: '/data',
      totalBytes: 100,
      freeBytes: 60,
      usedPercent: 40,
      usedInodesPercent: 1,
      isReadOnly: false,
    },
  ],
  counts: async () => counts,
  settings: async () => ({ sysctls: new Map(), controllers: undefined }),
};

function doctor(change: Partial<HostDoctorDeps> = {}, read: Partial<Readings> = {}): HostDoctor {
  return new HostDoctor({
    hostId: 'h1',
    version: '0.1.0',
    engineVersion: '26.1',
    scheduler: () => 'runs',
    places: [],
    agentFacts: async () => ({
      isEngineConnected: true,
      storeError: undefined,
      isFenceOpen: true,
      hasLease: true,
      schedulerFault: undefined,
    }),
    drift: () => undefined,
    certificates: async () => [],
    update: async () => undefined,
    address: async () => ({ address: '192.0.2.7', isOwn: true, others: ['192.0.2.7'] }),
    cpuUsedPercent: () => 12.5,
    now: () => 60_000,
    read: { ...machine, ...read },
    ...change,
  });
}

test('a host that is well is told with how full it is', async () => {
  assert.deepEqual(await doctor().examine(20_000, signal), {
    hostId: 'h1',
    now: 60_000,
    version: '0.1.0',
    engine: { isConnected: true, version: '26.1' },
    store: { isReachable: true },
    scheduler: 'runs',
    diskUsedPercent: 40,
    memoryUsedPercent: 75,
    cpuUsedPercent: 12.5,
    findings: [],
    unknown: [],
  });
});

test('an update that was cut is told on the host that was at it, with what goes on and what goes back', async () => {
  const since = '2026-11-26T03:00:00.000Z';
  const left = doctor({ update: async () => ({ version: '0.2.0', previous: '0.1.0', since }) });
  const [found, ...more] = (await left.examine(20_000, signal)).findings;
  assert.deepEqual([found?.check, found?.severity, found?.since, more], ['update', 'warning', since, []]);
  assert.match(found?.what ?? '', /to version 0\.2\.0, and that is not through/);
  assert.match(
    found?.remedy ?? '',
    /update --to 0\.2\.0 goes on \(with --bundle FILE .*\); flynn-host update --to 0\.1\.0 goes back/,
  );
});

test('a check that hangs is unknown, and what the others find is kept with since when', async () => {
  const ill = doctor(
    {
      agentFacts: async () => ({
        isEngineConnected: false,
        storeError: undefined,
        isFenceOpen: true,
        hasLease: true,
        schedulerFault: undefined,
      }),
    },
    { counts: () => new Promise(() => undefined) },
  );
  const seen = await ill.examine(300, signal);
  assert.deepEqual(
    seen.findings.map(({ check, since }) => [check, since]),
    [['agent', '1970-01-01T00:01:00.000Z']],
  );
  assert.deepEqual(
    seen.unknown.map(({ check }) => check),
    ['limits'],
  );
  assert.deepEqual([seen.engine.isConnected, seen.memoryUsedPercent], [false, undefined]);
});

test('an engine that hangs is told beside its version, for whoever lists hosts', async () => {
  const hung = doctor({
    agentFacts: async () => ({
      isEngineConnected: true,
      engineHang: { since: 0, version: '20.10.24' },
      storeError: undefined,
      isFenceOpen: true,
      hasLease: true,
      schedulerFault: undefined,
    }),
  });
  const { engine, findings } = await hung.examine(20_000, signal);
  assert.deepEqual(engine, { isConnected: true, isHung: true, version: '26.1' });
  const agent = { version: '0.1.0', engine, store: { isReachable: true }, scheduler: 'runs' as const };
  assert.match(hostsText([{ id: 'h1', state: 'cordoned', agent }], 0), /hangs/);
  assert.deepEqual(
    findings.map(({ matter, since }) => [matter, since]),
    [['engine-hang', '1970-01-01T00:00:00.000Z']],
  );
});

test('whoever asks with little patience changes neither the figures nor since when something is so', async () => {
  let nowMs = 60_000;
  let isSlow = false;
  const full = { files: { used: 99, limit: 100 } };
  const ill = doctor(
    { now: () => nowMs },
    { counts: async () => (isSlow ? new Promise(() => undefined) : { ...counts, ...full }) },
  );
  const sinceOf = ({ findings }: { findings: readonly { check: string; since?: string | undefined }[] }) =>
    findings.find(({ check }) => check === 'limits')?.since;
  const first = await ill.watch(signal);
  assert.equal(sinceOf(first), '1970-01-01T00:01:00.000Z');
  nowMs = 90_000;
  isSlow = true;
  assert.equal(sinceOf(await ill.examine(100, signal)), undefined);
  assert.deepEqual(ill.findings, first.findings);
  isSlow = false;
  assert.equal(sinceOf(await ill.examine(20_000, signal)), sinceOf(first));
  assert.equal(sinceOf(await ill.watch(signal)), sinceOf(first));
});

test('an agent that does not look by itself yet remembers what was found when it was asked', async () => {
  let nowMs = 60_000;
  const waiting = doctor(
    { now: () => nowMs },
    { counts: async () => ({ ...counts, files: { used: 99, limit: 100 } }) },
  );
  await waiting.examine(20_000, signal);
  nowMs = 90_000;
  const [found] = (await waiting.examine(20_000, signal)).findings;
  assert.equal(found?.since, '1970-01-01T00:01:00.000Z');
  assert.deepEqual(waiting.findings, [], 'figures are of its own looks');
});

test('what the agent says of the store and the certificates is asked for anew each time', async () => {
  let storeError: string | undefined = 'it does not answer in time';
  const changing = doctor({
    agentFacts: async () => ({
      isEngineConnected: true,
      storeError,
      isFenceOpen: true,
      hasLease: true,
      schedulerFault: undefined,
    }),
    certificates: async () => {
      throw new Error('no such file');
    },
  });
  const first = await changing.examine(20_000, signal);
  assert.equal(first.store.isReachable, false);
  assert.deepEqual(first.unknown, [{ check: 'certificates', subject: 'host h1', why: 'no such file' }]);
  storeError = undefined;
  assert.equal((await changing.examine(20_000, signal)).store.isReachable, true);
});
