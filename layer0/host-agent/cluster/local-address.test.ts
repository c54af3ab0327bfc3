import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import type { Store } from '@flynn/store/store';
import { openTestStore } from '@flynn/store/testing';
import { leaseKey, leaseSchema } from '../network/lease.ts';
import { followLocalAddress } from './local-address.ts';
import { leaseSubnet } from './subnets.ts';

const range = '100.100.0.0/16';

async function leaseOf(store: Store, hostId: string) {
  const entry = await store.get(leaseKey(hostId));
  return leaseSchema.parse(JSON.parse(entry?.value ?? 'null'));
}

/** Looks at the addresses one after the other; what the lease had after each. */
async function followed(store: Store, hostId: string, addresses: readonly string[]): Promise<(string | undefined)[]> {
  const stop = new AbortController();
  const seen: (string | undefined)[] = [];
  const left = [...addresses];
  const follow = followLocalAddress(
    store,
    { hostId, address: async () => left.shift() ?? '' },
    {
      log: silentLogger(),
      signal: stop.signal,
      clock: {
        sleep: async () => {
          seen.push((await leaseOf(store, hostId)).localAddress);
          if (left.length === 0) stop.abort();
          stop.signal.throwIfAborted();
        },
      },
    },
  );
  await assert.rejects(follow);
  return seen;
}

test('a host behind NAT says where it is in its own network, whenever that is another address', async () => {
  await using store = openTestStore();
  await leaseSubnet(store, { hostId: 'h4', address: '10.0.0.4', site: 'home', range, now: 1 });
  const seen = await followed(store, 'h4', ['10.0.0.4', '10.0.0.9', '', '127.0.0.1', '10.0.0.9', '10.0.0.4']);
  assert.deepEqual(seen, ['10.0.0.4', '10.0.0.9', '10.0.0.9', '10.0.0.9', '10.0.0.9', '10.0.0.4']);
  const { address, subnet } = await leaseOf(store, 'h4');
  assert.deepEqual([address, subnet], ['100.100.0.1', '100.100.0.0/24']);
});

test('of a host that all reach nothing is told', async () => {
  await using store = openTestStore();
  const before = await leaseSubnet(store, { hostId: 'h1', address: '192.0.2.1', range, now: 1 });
  assert.deepEqual(await followed(store, 'h1', ['10.0.0.9']), [undefined]);
  assert.deepEqual(await leaseOf(store, 'h1'), before);
});
