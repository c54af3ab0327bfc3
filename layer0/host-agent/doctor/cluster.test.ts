import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { cellKeys, hostSettingsSchema } from '@flynn/scheduler/cell';
import type { HostRecord } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { writeEncryption } from '../network/encryption.ts';
import { leaseKey } from '../network/lease.ts';
import { type HostExamination, doctorRoutes } from './api.ts';
import { ClusterDoctor } from './cluster.ts';
import type { ClusterDoctorDeps } from './cluster.ts';
import { knownHosts } from './known-hosts.ts';
import { clusterText, findingsText } from './text.ts';

const { signal } = new AbortController();

const record = (id: string, place: number): HostRecord => ({
  id,
  address: `192.0.2.${place}`,
  apiPort: 1113,
  capacity: { memoryBytes: 1, cpuMillis: 1 },
  attributes: {},
  cordoned: false,
  startedAt: 0,
});

const examination = (hostId: string): HostExamination => ({
  hostId,
  now: 0,
  version: '0.1.0',
  engine: { isConnected: true, version: '26.1' },
  store: { isReachable: true },
  scheduler: 'runs',
  diskUsedPercent: 40,
  memoryUsedPercent: 50,
  findings: [],
  unknown: [],
});

const hosts = [record('h1', 1), record('h2', 2)];

function doctor(change: Partial<ClusterDoctorDeps>): ClusterDoctor {
  const settings = hostSettingsSchema.parse({});
  return new ClusterDoctor({
    hostId: 'h1',
    store: { list: async () => ({ entries: [], revision: 1 }), get: async () => undefined },
    knownHosts: async () => hosts.map((one) => ({ id: one.id, record: one, settings })),
    rememberedHosts: () => hosts,
    ask: async ({ id }) => examination(id),
    etcd: async () => ({ members: [], alarms: [] }),
    strangers: async () => [],
    quotaBytes: async () => 1,
    now: () => 0,
    ...change,
  });
}

test('a cluster that is well is told with all its hosts', async () => {
  const seen = await doctor({}).examine({ patienceMs: 5_000, work: true, signal });
  assert.deepEqual([seen.findings, seen.unknown], [[], []]);
  assert.deepEqual(
    seen.hosts.map(({ id, state, clockOffsetMs }) => ({ id, state, clockOffsetMs })),
    [
      { id: 'h1', state: 'up', clockOffsetMs: 0 },
      { id: 'h2', state: 'up', clockOffsetMs: 0 },
    ],
  );
  assert.match(clusterText(seen, 1_000), /^HOST +STATE[^]*\nh2 +up +0\.1\.0 +26\.1 +runs +0 +40% +50% +\+0\.0s +1s\n/);
});

test('a store on one of three hosts is not well once they have been there for minutes', async () => {
  const endpoint = 'https://192.0.2.1:2379';
  const answer = { id: '1', storeId: '1', version: '3.5.16', leaderId: '1', raftIndex: 1, isLearner: false, tookMs: 1 };
  const three = [...hosts, record('h3', 3)];
  const told = async (minutes: number) => {
    const { findings } = await doctor({
      knownHosts: async () => three.map((one) => ({ id: one.id, record: one, settings: hostSettingsSchema.parse({}) })),
      ask: async ({ id }) => ({ ...examination(id), now: minutes * 60_000 }),
      etcd: async () => ({ members: [{ endpoint, answer: { ...answer, sizeBytes: 1, usedBytes: 1 } }], alarms: [] }),
      quotaBytes: async () => 1_000,
      now: () => minutes * 60_000,
    }).examine({ patienceMs: 5_000, work: false, signal });
    return findings.map(({ what }) => what);
  };
  assert.deepEqual(await told(1), []);
  assert.deepEqual(await told(10), ['it has 1 member, and should have 3 on the hosts there are']);
});

test('hosts of different versions are told: an update was left where it was, or left them when they were away', async () => {
  const versions: Record<string, string> = { h1: '0.2.0', h2: '0.1.0', h3: '0.2.0' };
  const three = [...hosts, record('h3', 3)];
  const told = (of: readonly HostRecord[]) =>
    doctor({
      knownHosts: async () => of.map((one) => ({ id: one.id, record: one, settings: hostSettingsSchema.parse({}) })),
      ask: async ({ id }) => ({ ...examination(id), version: versions[id] ?? '' }),
    }).examine({ patienceMs: 5_000, work: false, signal });
  const { findings } = await told(three);
  assert.deepEqual(
    findings.map(({ check, severity, what }) => `${severity} ${check}: ${what}`),
    ['warning hosts: hosts are of different versions: h1, h3 0.2.0; h2 0.1.0'],
  );
  assert.match(findings[0]?.remedy ?? '', /flynn-host update --to/);
  assert.deepEqual((await told(three.filter(({ id }) => id !== 'h2'))).findings, []);
});

test('whoever asks with little patience does not change since when something is so', async () => {
  let nowMs = 0;
  let isSlow = false;
  const ill = doctor({
    now: () => nowMs,
    ask: async ({ id }) => (isSlow ? new Promise(() => undefined) : { ...examination(id), version: id, now: nowMs }),
  });
  const look = async (patienceMs: number) => {
    const { findings } = await ill.examine({ patienceMs, work: false, signal });
    return findings.find(({ what }) => what.startsWith('hosts are of different versions'))?.since;
  };
  const first = await look(900);
  assert.equal(first, '1970-01-01T00:00:00.000Z');
  nowMs = 60_000;
  assert.equal(await look(5_000), first);
  isSlow = true;
  assert.equal(await look(100), undefined);
  isSlow = false;
  assert.equal(await look(900), first);
  assert.equal(await look(5_000), first);
});

test('which host keeps the platform is told, and that none does once it is out of the cluster', async () => {
  const keptBy = (hostId: string) => ({
    list: async () => ({ entries: [], revision: 1 }),
    get: async (key: string) =>
      key === '/flynn/cluster/keeper'
        ? {
            key,
            value: JSON.stringify({ hostId, since: new Date(0).toISOString() }),
            createRevision: 1,
            modRevision: 1,
          }
        : undefined,
  });
  const kept = await doctor({ store: keptBy('h2') }).examine({ patienceMs: 5_000, work: false, signal });
  assert.deepEqual([kept.keeper, kept.findings], ['h2', []]);
  assert.match(clusterText(kept, 1_000), /\nThe platform is kept by h2: updates/);
  const lost = await doctor({ store: keptBy('h9') }).examine({ patienceMs: 5_000, work: false, signal });
  assert.deepEqual(
    lost.findings.map(({ what }) => what),
    ['no host keeps it: h9, which did, is out of the cluster'],
  );
});

test('hosts that are away, and say nothing, do not take all the time that the members are asked for', async () => {
  let isTimeLeft = false;
  let ofMembers: AbortSignal | undefined;
  const seen = await doctor({
    etcd: async (until) => {
      ofMembers = until;
      return { members: [], alarms: [] };
    },
    async strangers(until) {
      await once(until, 'abort');
      isTimeLeft = ofMembers?.aborted === false;
      return [];
    },
  }).examine({ patienceMs: 2_000, work: false, signal });
  assert.deepEqual([isTimeLeft, seen.unknown], [true, []]);
});

test('a change of encryption that was left half-way is found in the store', async () => {
  const store = createMemoryStore();
  const seen = async (now: number) =>
    (await doctor({ store, now: () => now }).examine({ patienceMs: 5_000, work: false, signal })).findings;
  await writeEncryption(store, 'ready', { now: 0, signal });
  assert.deepEqual(await seen(60_000), []);
  assert.deepEqual(
    (await seen(300_000)).map(({ check, since, what }) => ({ check, since, what })),
    [
      {
        check: 'encryption',
        since: new Date(0).toISOString(),
        what: 'a change of its encryption was left half-way, at "ready"',
      },
    ],
  );
});

test('the patience that other hosts are asked with is one that their agents take', async () => {
  const asked: number[] = [];
  const ask: ClusterDoctorDeps['ask'] = async ({ id }, patienceMs) => {
    asked.push(patienceMs);
    return examination(id);
  };
  for (const patienceMs of [50, 83, 900]) await doctor({ ask }).examine({ patienceMs, work: false, signal });
  const { query } = doctorRoutes.host;
  assert.ok(query !== undefined && asked.length === 6);
  for (const patienceMs of asked) assert.deepEqual(query.parse({ patienceMs }), { patienceMs });
});

test('an agent that says nothing is told as silent, and holds nobody up', async () => {
  const startedMs = performance.now();
  const ask: ClusterDoctorDeps['ask'] = async ({ id }, _patience, limited) => {
    if (id === 'h1') return examination(id);
    return new Promise((_, reject) => {
      limited.addEventListener('abort', () => reject(new FlynnError('timeout', 'no answer')), { once: true });
    });
  };
  const seen = await doctor({ ask }).examine({ patienceMs: 300, work: false, signal });
  assert.ok(performance.now() - startedMs < 60_000);
  assert.deepEqual(
    seen.hosts.map(({ id, state }) => [id, state]),
    [
      ['h1', 'up'],
      ['h2', 'silent'],
    ],
  );
  assert.match(
    findingsText(seen, 0),
    /✗ host h2: its agent does not answer at 192\.0\.2\.2:1113: no answer\n {2}since/,
  );
});

test('while the store is away the hosts that were there are asked all the same', async () => {
  const away = async () => {
    throw new FlynnError('unavailable', 'etcd does not answer');
  };
  const member = { endpoint: 'https://192.0.2.2:2379', error: 'connection refused' };
  const seen = await doctor({
    knownHosts: away,
    store: { list: away, get: away },
    etcd: async () => ({ members: [member], alarms: [] }),
  }).examine({ patienceMs: 2_000, work: true, signal });
  assert.deepEqual(
    seen.hosts.map(({ id, state }) => [id, state]),
    [
      ['h1', 'up'],
      ['h2', 'up'],
    ],
  );
  assert.match(
    seen.findings.map(({ what }) => what).join('\n'),
    /the member on h2 does not answer \(0 of 1 members do\)/,
  );
  assert.deepEqual(seen.etcd, [
    { endpoint: 'https://192.0.2.2:2379', hostId: 'h2', isHealthy: false, isLeader: false },
  ]);
  assert.deepEqual(
    seen.unknown,
    ['encryption', 'work'].map((check) => ({ check, subject: 'the cluster', why: 'etcd does not answer' })),
  );
});

test('hosts are known by their records, by what is wanted of them, and by having joined', async () => {
  await using store = createMemoryStore();
  const lease = { hostId: 'h3', address: '192.0.2.3', subnet: '100.100.3.0/24', joinedAt: 0 };
  await store.transact({
    then: [
      { put: cellKeys.host('h1'), value: JSON.stringify(record('h1', 1)) },
      { put: cellKeys.hostSettings('h2'), value: JSON.stringify({ cordoned: true }) },
      { put: leaseKey('h3'), value: JSON.stringify(lease) },
    ],
  });
  assert.deepEqual(
    (await knownHosts(store, { signal })).map(({ id, record: known, settings }) => [
      id,
      known?.address,
      settings.cordoned,
    ]),
    [
      ['h1', '192.0.2.1', false],
      ['h2', undefined, true],
      ['h3', undefined, false],
    ],
  );
});
