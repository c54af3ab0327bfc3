import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pause } from '@flynn/kit/clock';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { openMirror } from '@flynn/store/mirror';
import { type Lease, leaseKey, leasePrefix, leaseSchema } from './lease.ts';
import { type Told, keepOwnLease, leaseToldOf } from './own-lease.ts';

const lease: Lease = { hostId: 'h1', address: '192.0.2.2', subnet: '100.100.1.0/24', joinedAt: 1 };
const tunnelKey = `${'A'.repeat(43)}=`;

test('the lease gets what the host says, and keeps what the host has no word of', () => {
  const keyed = { ...lease, tunnelKey };
  assert.deepEqual(leaseToldOf(lease, { tunnelKey }), keyed);
  assert.equal(leaseToldOf(keyed, { tunnelKey, unheard: [] }), undefined);
  const behind = { ...keyed, site: 'home', localAddress: '10.0.0.7' };
  assert.equal(leaseToldOf(behind, { tunnelKey }), undefined);
  assert.deepEqual(leaseToldOf(keyed, { tunnelKey, site: 'home', localAddress: '10.0.0.7' }), behind);
  assert.deepEqual(leaseToldOf(behind, { tunnelKey, site: 'home', localAddress: '10.0.0.8' }), {
    ...behind,
    localAddress: '10.0.0.8',
  });
});

test('whom it does not hear is in the lease for as long as that lasts', () => {
  const deaf = { ...lease, unheard: ['h2', 'h3'] };
  assert.deepEqual(leaseToldOf(lease, { unheard: ['h2', 'h3'] }), deaf);
  assert.equal(leaseToldOf(deaf, { unheard: ['h2', 'h3'] }), undefined);
  assert.deepEqual(leaseToldOf(deaf, { unheard: ['h3'] }), { ...lease, unheard: ['h3'] });
  assert.deepEqual(leaseToldOf(deaf, {}), lease);
});

test('it is written again when somebody overwrote it, and not at all for a host that was removed', async (t) => {
  const log = silentLogger();
  const stop = new AbortController();
  const store = createMemoryStore();
  const read = async (hostId: string): Promise<Lease | undefined> => {
    const entry = await store.get(leaseKey(hostId));
    return entry === undefined ? undefined : leaseSchema.parse(JSON.parse(entry.value));
  };
  await store.transact({ then: [{ put: leaseKey('h1'), value: JSON.stringify(lease) }] });
  const decode = (json: unknown): Lease => leaseSchema.parse(json);
  const leases = await openMirror({ store, prefix: leasePrefix, decode, log, signal: t.signal });
  let told: Told = { tunnelKey };
  const standing = { mayTell: false };
  const options = { told: () => told, leases, store, standing, log, checkEveryMs: 5 };
  const kept = ['h1', 'gone'].map((hostId) => keepOwnLease({ ...options, hostId }, stop.signal));
  const until = (what: string, isSo: (known: Lease | undefined) => boolean) =>
    waitFor(async () => isSo(await read('h1')), { what, deadlineMs: 60_000, intervalMs: 5 });
  // Before the host's record is this agent's the lease may be another machine's to say.
  await pause(100, stop.signal);
  assert.deepEqual(await read('h1'), lease);
  standing.mayTell = true;
  await until('the key', (known) => known?.tunnelKey === tunnelKey);
  await store.transact({ then: [{ put: leaseKey('h1'), value: JSON.stringify({ ...lease, address: '192.0.2.9' }) }] });
  await until('the key beside what was changed', (known) => known?.tunnelKey === tunnelKey);
  assert.equal((await read('h1'))?.address, '192.0.2.9');
  told = { tunnelKey, unheard: ['h2'] };
  await until('whom it does not hear', (known) => known?.unheard?.join() === 'h2');
  await store.transact({ then: [{ delete: leaseKey('h1') }] });
  await leases.reached((await store.list(leasePrefix)).revision);
  told = { tunnelKey, unheard: ['h3'] };
  stop.abort();
  await Promise.all(kept);
  assert.deepEqual((await store.list(leasePrefix)).entries, []);
  await leases[Symbol.asyncDispose]();
  await store.close();
});
