import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys, type HostRecord } from '@flynn/scheduler/cell';
import { createRegistry, instanceKey, type LastingRegistry } from '@flynn/discovery/store-registry';
import { createMemoryStore, type MemoryStore } from '@flynn/store/memory';
import type { Lease } from '@flynn/store/store';
import { prepareAbsence } from './absence.ts';
import { keepAnnounced } from './record.ts';

const log = silentLogger();
const record: HostRecord = {
  id: 'h1',
  address: '10.0.0.1',
  apiPort: 1113,
  capacity: { memoryBytes: 1, cpuMillis: 1 },
  attributes: {},
  cordoned: false,
  startedAt: 1,
};
const hostKey = cellKeys.host('h1');
const host = { service: 'flynn-host', id: 'h1', address: '10.0.0.1:1113' };
const job = { service: 'web', id: 'h1-a', address: '100.100.0.2:80' };
const beating = { service: 'web', id: 'other', address: '100.100.0.3:80' };

type World = {
  store: MemoryStore;
  /** Of the agent that ends. */
  own: MemoryStore;
  registry: LastingRegistry;
  extended: Pick<Lease, 'expiresAtMs'>[];
  /** Ends its loop, then acts if asked to, then its process ends. */
  end: (options: { isToReturn: boolean; before?: () => Promise<void> }) => Promise<void>;
  pass: (ms: number) => void;
  thereIs: (key: string) => Promise<boolean>;
};

/** An agent that announced its host, a job, and what somebody has to announce again every ten seconds. */
async function scenario(run: (world: World) => Promise<void>): Promise<void> {
  let nowMs = 0;
  await using store = createMemoryStore({ now: () => nowMs });
  const own = store.connect();
  const stop = new AbortController();
  await using registry = await createRegistry({ store: own, log, signal: stop.signal });
  await registry.register(job);
  await registry.register(beating, { ttlSeconds: 10 });
  const heard = Promise.withResolvers<void>();
  const running = keepAnnounced(own, () => record, {
    signal: stop.signal,
    log,
    async onAnnounced(lease) {
      await registry.register(host, { lease });
      heard.resolve();
    },
  });
  await heard.promise;
  const extended: World['extended'] = [];
  await run({
    store,
    own,
    registry,
    extended,
    async end({ isToReturn, before }) {
      stop.abort();
      const announced = await running;
      assert.ok(announced !== undefined);
      await before?.();
      const fence = {
        async extend(lease: Pick<Lease, 'expiresAtMs'>) {
          assert.notEqual((await store.get(hostKey))?.lease, announced.lease.id, 'the watchdog never has more time');
          extended.push(lease);
        },
      };
      if (isToReturn) await prepareAbsence(announced, { store: own, registry, fence, hostId: 'h1', log });
      await own.close();
    },
    pass(ms) {
      nowMs += ms;
      store.expireLeases();
    },
    thereIs: async (key) => (await store.get(key)) !== undefined,
  });
}

const keys = [hostKey, instanceKey('flynn-host', 'h1'), instanceKey('web', 'h1-a')];

test('of an agent that is to be back nobody misses anything for half a minute, and all of it after that', () =>
  scenario(async ({ store, end, pass, thereIs, extended }) => {
    const created = (await store.get(hostKey))?.createRevision;
    await end({ isToReturn: true });
    assert.equal(extended.length, 1);
    pass(12_000);
    for (const key of keys) assert.ok(await thereIs(key), key);
    assert.equal((await store.get(hostKey))?.createRevision, created);
    // It is nobody's to vouch for.
    assert.equal(await thereIs(instanceKey('web', 'other')), false);
    pass(19_000);
    for (const key of keys) assert.equal(await thereIs(key), false, key);
  }));

test('an agent that ends for good is missed at the end of its short leases', () =>
  scenario(async ({ end, pass, thereIs, extended }) => {
    await end({ isToReturn: false });
    assert.equal(extended.length, 0);
    pass(12_000);
    for (const key of keys) assert.equal(await thereIs(key), false, key);
  }));

test('the one that is back has it on its own leases again, and nobody saw the host go', () =>
  scenario(async ({ store, end, pass, thereIs }) => {
    const created = (await store.get(hostKey))?.createRevision;
    await end({ isToReturn: true });
    pass(12_000);
    const next = store.connect();
    const stop = new AbortController();
    const expected: unknown[] = [];
    const running = keepAnnounced(next, () => ({ ...record, startedAt: 2 }), {
      signal: stop.signal,
      log,
      async beforeAnnounced() {
        expected.push(JSON.parse((await store.get(hostKey))?.value ?? '').startedAt);
      },
    });
    await using _ending = { [Symbol.asyncDispose]: async () => (stop.abort(), void (await running)) };
    const isBack = async () => (await store.get(hostKey))?.value.includes('"startedAt":2') === true;
    await waitFor(isBack, { what: 'the next agent', deadlineMs: 30_000 });
    assert.deepEqual(expected, [1], 'told before the record is on its lease');
    assert.equal((await store.get(hostKey))?.createRevision, created);
    stop.abort();
    await running;
    await next.close();
    pass(8_000);
    assert.equal(await thereIs(hostKey), false, 'it is on the short lease');
  }));

test('a record that another agent wrote meanwhile is left alone, and so is the watchdog', () =>
  scenario(async ({ store, end, pass, thereIs, extended }) => {
    const other = await store.grantLease({ ttlSeconds: 600 });
    const value = JSON.stringify({ ...record, startedAt: 3 });
    const before = async () => void (await store.transact({ then: [{ put: hostKey, value, lease: other.id }] }));
    await end({ isToReturn: true, before });
    assert.equal(extended.length, 0);
    assert.equal((await store.get(hostKey))?.lease, other.id);
    pass(12_000);
    assert.equal(await thereIs(instanceKey('web', 'h1-a')), false);
  }));

test('a store that is away keeps no agent from ending', () =>
  scenario(async ({ own, end, extended }) => {
    const before = async () => own.disconnect();
    await end({ isToReturn: true, before });
    assert.equal(extended.length, 0);
  }));
