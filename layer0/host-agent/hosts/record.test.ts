import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { fakeClock } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, hostRecordSchema } from '@flynn/scheduler/cell';
import type { HostRecord } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { configSchema, gatewayOf, parseAttributes, parseUpstream } from '../config.ts';
import { capacityOf, closedFor, diskCondition, keepAnnounced, leaseCondition, openOrClosed } from './record.ts';

const record: HostRecord = {
  id: 'h1',
  address: '10.0.0.1',
  apiPort: 1113,
  capacity: { memoryBytes: 1, cpuMillis: 1 },
  attributes: { zone: 'a' },
  cordoned: false,
  startedAt: 1,
};

test('a host is announced, stays cordoned over a restart of its agent, and never left in between', async () => {
  const store = createMemoryStore();
  const log = silentLogger();
  const announced = async () => {
    const entry = await store.get(cellKeys.host('h1'));
    return entry === undefined ? undefined : { entry, host: hostRecordSchema.parse(JSON.parse(entry.value)) };
  };
  const first = new AbortController();
  const running = keepAnnounced(store, () => record, { signal: first.signal, log });
  const before = await waitFor(announced, { what: 'the announcement', deadlineMs: 30_000 });
  assert.ok(before.entry.lease !== undefined);
  const value = JSON.stringify({ ...before.host, cordoned: true });
  await store.transact({ then: [{ put: cellKeys.host('h1'), value, lease: before.entry.lease }] });
  first.abort();
  await running;
  const second = new AbortController();
  const again = keepAnnounced(store, () => ({ ...record, startedAt: 2 }), { signal: second.signal, log });
  const after = await waitFor(
    async () => {
      const found = await announced();
      return found?.host.startedAt === 2 && found;
    },
    { what: 'the second announcement', deadlineMs: 30_000 },
  );
  assert.equal(after.host.cordoned, true);
  assert.equal(after.entry.createRevision, before.entry.createRevision);
  second.abort();
  await again;
  await store.close();
});

test('a host whose disk is full, whose engine hangs, or that has no lease cordons itself, and opens again by itself', async () => {
  const store = createMemoryStore();
  const log = silentLogger();
  const told = async (): Promise<HostRecord | undefined> => {
    const entry = await store.get(cellKeys.host('h1'));
    return entry === undefined ? undefined : hostRecordSchema.parse(JSON.parse(entry.value));
  };
  const full = closedFor(record, { [diskCondition]: 'full' });
  const unleased = closedFor(record, { [leaseCondition]: 'none' });
  const both = closedFor(full, { [leaseCondition]: 'none' });
  const well = { isUnleased: false, isDiskFull: false, isEngineHung: false };
  const hung = openOrClosed(record, { ...well, isEngineHung: true });
  assert.deepEqual([hung.cordoned, hung.attributes], [true, { zone: 'a', 'condition.engine': 'hangs' }]);
  assert.deepEqual(openOrClosed(record, { ...well, isUnleased: true, isDiskFull: true }), both);
  assert.equal(openOrClosed(record, well), record);
  for (const now of [full, record, hung, record, unleased, both, unleased, record]) {
    const stop = new AbortController();
    const running = keepAnnounced(store, () => now, { signal: stop.signal, log });
    await waitFor(async () => isDeepStrictEqual(await told(), now), { what: 'the record', deadlineMs: 30_000 });
    stop.abort();
    await running;
  }
  await store.close();
});

test('what a host says of itself is told when it has changed, not only when it is time to', async () => {
  const store = createMemoryStore();
  const clock = fakeClock();
  const stop = new AbortController();
  let said: HostRecord = { ...record, mutual: { withoutIdentity: 0, keyAlone: 0 } };
  const announced: number[] = [];
  const running = keepAnnounced(store, () => said, {
    signal: stop.signal,
    log: silentLogger(),
    clock,
    onAnnounced: async (_lease, revision) => void announced.push(revision),
  });
  const times = (count: number) =>
    waitFor(() => announced.length === count, { what: `${count} announcements`, deadlineMs: 30_000, intervalMs: 5 });
  await times(1);
  await clock.advance(1_000);
  assert.equal(announced.length, 1);
  said = { ...record, mutual: { withoutIdentity: 0, keyAlone: 1 } };
  await clock.advance(1_000);
  await times(2);
  const entry = await store.get(cellKeys.host(record.id));
  assert.equal(hostRecordSchema.parse(JSON.parse(entry?.value ?? '')).mutual?.keyAlone, 1);
  stop.abort();
  await running;
  await store.close();
});

test('while writing the record fails, no further leases are kept alive', async () => {
  const store = createMemoryStore();
  let refused = 0;
  let granted = 0;
  const slow: Parameters<typeof keepAnnounced>[0] = {
    get: (key, options) => store.get(key, options),
    async grantLease(options) {
      granted += 1;
      return store.grantLease(options);
    },
    async transact(transaction, options) {
      refused += 1;
      if (refused <= 3) throw new FlynnError('timeout', 'the store is slow');
      return store.transact(transaction, options);
    },
  };
  const stop = new AbortController();
  const running = keepAnnounced(slow, () => record, { signal: stop.signal, log: silentLogger() });
  await waitFor(() => store.get(cellKeys.host('h1')), { what: 'the announcement', deadlineMs: 30_000 });
  assert.equal(granted, 1);
  stop.abort();
  await running;
  await store.close();
});

test("a tenth of the memory is the host's own, and cores are shared", () => {
  assert.deepEqual(capacityOf({ memoryBytes: 1000, cores: 2 }), { memoryBytes: 900, cpuMillis: 8000 });
});

test('the configuration has sensible defaults and clear refusals', () => {
  const config = configSchema.parse({ FLYNN_HOST_ID: 'h1', FLYNN_KEY: 'k', FLYNN_ADDRESS: '10.0.0.1' });
  assert.equal(config.FLYNN_SCHEDULER, true);
  assert.equal(gatewayOf(config.FLYNN_SUBNET), '100.100.0.1');
  assert.equal(gatewayOf('100.100.7.0/24'), '100.100.7.1');
  assert.deepEqual(parseAttributes('zone=a, disk=ssd'), { zone: 'a', disk: 'ssd' });
  assert.throws(() => parseAttributes('zone'), /key=value/);
  assert.deepEqual(parseUpstream('1.1.1.1'), { address: '1.1.1.1', port: 53 });
  assert.throws(() => parseUpstream('dns.example'), /not an IPv4 address/);
  assert.throws(() => configSchema.parse({ FLYNN_HOST_ID: 'h-1', FLYNN_KEY: 'k', FLYNN_ADDRESS: '10.0.0.1' }));
});
