import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { createRegistry } from '@flynn/discovery/store-registry';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { TaskGroup } from '@flynn/kit/tasks';
import { openTestStore } from '@flynn/store/testing';
import { leaseSubnet, releaseSubnet } from '../cluster/subnets.ts';
import { Shell } from '../shell.ts';
import { encryptionKey } from './encryption.ts';
import type { Heard } from './host-network.ts';
import { leaseKey } from './lease.ts';
import { testSettings } from './settings-fixture.ts';
import { followCluster, runnerOf, tellOf } from './start.ts';

test('a script has its arguments in the shell that stays, too', async (t) => {
  const folder = await mkdtemp(join(tmpdir(), 'flynn-runner-'));
  t.after(() => rm(folder, { recursive: true }));
  const run = runnerOf(new Shell());
  const file = join(folder, "it's here");
  await run({ program: 'sh', args: ['-c', 'echo "$1" > "$2"', 'sh', 'a $b', file] }, t.signal);
  assert.equal(await readFile(file, 'utf8'), 'a $b\n');
  assert.equal(await run({ program: 'sh', args: ['-c', 'echo "$#"'] }, t.signal), '0\n');
  assert.equal(await run({ program: 'echo', args: ['-c', 'x'] }, t.signal), '-c x\n');
});

test('the network is told once of each time that the engine is found, and of all else as of a change', () => {
  let change: (() => void) | undefined;
  const containers = {
    connections: 0,
    onChange: (listener: () => void) => {
      change = listener;
      return () => undefined;
    },
  };
  const told: string[] = [];
  tellOf(containers, { changed: () => void told.push('changed'), engineIsBack: () => void told.push('back') });
  for (const connections of [0, 1, 1, 2]) {
    Object.assign(containers, { connections });
    change?.();
  }
  assert.deepEqual(told, ['changed', 'back', 'changed', 'back']);
});

test('of encryption the network is told each word there is, and one that cannot be read as such', async () => {
  await using store = openTestStore();
  const log = silentLogger();
  await using registry = await createRegistry({ store, log });
  await using tasks = new TaskGroup();
  const told: string[] = [];
  let read: (() => Heard) | undefined;
  const network = {
    settings: testSettings,
    unheard: [],
    changed: () => void told.push(read?.().word ?? 'nothing'),
    follow: (heard: () => Heard) => void (read = heard),
  };
  await store.transact({ then: [{ put: encryptionKey, value: 'no JSON' }] });
  await followCluster(network, { store, registry, standing: { mayTell: true }, log }, tasks);
  assert.equal(read?.().word, 'unreadable');
  const becomes = async (word: string, step: { put: string; value: string } | { delete: string }): Promise<void> => {
    await store.transact({ then: [step] });
    await waitFor(() => told.at(-1) === word, { what: `to be told ${word}`, deadlineMs: 60_000, intervalMs: 5 });
  };
  await becomes('on', { put: encryptionKey, value: '"on"' });
  await becomes('unreadable', { put: encryptionKey, value: '"of a later version"' });
  await becomes('off', { delete: encryptionKey });
});

test('whether this host has its subnet from the cluster is known, also where another host has its name by now', async () => {
  await using store = openTestStore();
  const log = silentLogger();
  await using registry = await createRegistry({ store, log });
  await using tasks = new TaskGroup();
  const wireguard = { ...testSettings.wireguard, key: `${'k'.repeat(43)}=` };
  const settings = { ...testSettings, wireguard };
  let read: (() => Heard) | undefined;
  const told: ReadonlySet<string>[] = [];
  const network = {
    settings,
    unheard: [],
    changed: () => void told.push(read?.().unread ?? new Set()),
    follow: (heard: () => Heard) => void (read = heard),
  };
  const { hostId, address, subnet, range } = testSettings;
  const joining = { hostId, address, range, subnet, now: 0 };
  await leaseSubnet(store, joining);
  const { isLeased } = await followCluster(network, { store, registry, standing: { mayTell: true }, log }, tasks);
  const becomes = async (is: boolean): Promise<void> => {
    await waitFor(async () => isLeased() === is, { what: `to be ${is}`, deadlineMs: 60_000, intervalMs: 5 });
  };
  assert.equal(isLeased(), true);
  await releaseSubnet(store, hostId);
  await becomes(false);
  await leaseSubnet(store, { ...joining, subnet: '100.100.7.0/24' });
  // It tells its key in whichever lease has its name.
  await waitFor(async () => (await store.get(leaseKey(hostId)))?.value.includes(wireguard.key), {
    what: 'it',
    deadlineMs: 60_000,
  });
  assert.equal(isLeased(), false);
  await releaseSubnet(store, hostId);
  await leaseSubnet(store, joining);
  await becomes(true);
  const { revision } = await store.transact({ then: [{ put: leaseKey(hostId), value: '{"subnets":[]}' }] });
  await waitFor(() => told.some((unread) => unread.has(hostId)), { what: `${revision}`, deadlineMs: 60_000 });
  assert.equal(isLeased(), true, 'what cannot be read was not given to another');
});
