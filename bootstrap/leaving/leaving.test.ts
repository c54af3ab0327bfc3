import assert from 'node:assert/strict';
import { test } from 'node:test';
import { formations } from '@flynn/controller/api';
import { hosts } from '@flynn/controller/hosts/api';
import { type TestController, startTestController } from '@flynn/controller/testing';
import { leaseSubnet, releaseSubnet } from '@flynn/host-agent/cluster/subnets';
import { leaseKey } from '@flynn/host-agent/network/lease';
import { changeSettings, readSettings } from '@flynn/host-agent/hosts/settings';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { cellKeys } from '@flynn/scheduler/cell';
import { leasesOf } from '../joining/admission.ts';
import { forget, leave } from './leaving.ts';

const checkBlobs = async () => {};
const listVolumes = async () => [];
const hasMember = async () => false;
const joined = (hostId: string) => ({ hostId, hasPlatform: false });
const isNotFound = (error: unknown): boolean => hasCode(error, 'not_found');

/** Three hosts that leased a subnet each, and so many jobs of an app. */
async function startHosts(count: number, volumes: readonly string[] = []): Promise<TestController> {
  const world = await startTestController({ hosts: 3 });
  for (const [index, { id }] of world.hosts.entries()) {
    const lease = { hostId: id, address: `192.0.2.${index + 1}`, range: '100.100.0.0/16', now: 0 };
    await leaseSubnet(world.store, lease);
  }
  const web = { memoryBytes: 2 ** 20, volumes: volumes.map((name) => ({ name, path: '/data' })) };
  await world.deployApp('shop', { web });
  const body = { processes: { web: count } };
  await world.client.call(formations.put, { params: { app: 'shop', release: 'v1' }, body });
  await world.jobsOf('shop', count);
  return world;
}

async function leaveTelling(world: TestController, hostId: string): Promise<string[]> {
  const lines: string[] = [];
  assert.equal(
    await leave(world.store, joined(hostId), {
      isForced: false,
      report: (line) => lines.push(line),
      checkBlobs,
      listVolumes,
      hasMember,
    }),
    true,
  );
  return lines;
}

/** Its agent ends, and whatever it ran. */
async function end(world: TestController, hostId: string): Promise<void> {
  await world.hosts.find(({ id }) => id === hostId)?.[Symbol.asyncDispose]();
}

const wantedOf = (world: TestController, hostId: string) =>
  readSettings(world.store, hostId, { signal: AbortSignal.timeout(30_000) });

/** What the store has of a host; how things came about is kept for an hour. */
async function keysOf(world: TestController, hostId: string): Promise<string[]> {
  const { entries } = await world.store.list('/flynn/');
  return entries
    .map(({ key }) => key)
    .filter((key) => !key.startsWith(cellKeys.evaluations) && key.split('/').includes(hostId));
}

test('the jobs of a host that leaves run elsewhere before it goes, and nothing of it is left', async () => {
  await using world = await startHosts(6);
  const lines = await leaveTelling(world, 'host3');
  assert.deepEqual(
    lines.filter((line) => /^moving 2 jobs|run elsewhere/.test(line)),
    ['moving 2 jobs to other hosts', 'its jobs run elsewhere'],
    lines.join('; '),
  );
  await world.jobsOf('shop', 6, ({ hostId, state }) => hostId !== 'host3' && state === 'running');
  await end(world, 'host3');
  await forget(world.store, 'host3');
  assert.deepEqual(await keysOf(world, 'host3'), []);
  // The controller hears of it.
  const ask = () => world.client.call(hosts.get, { params: { host: 'host3' } });
  await waitFor(() => ask().then(() => undefined, isNotFound), { what: 'it to be forgotten', deadlineMs: 30_000 });
  // Interrupted and run again, it finds nothing to do.
  await leaveTelling(world, 'host3');
  await forget(world.store, 'host3');
  assert.deepEqual(await keysOf(world, 'host3'), []);
});

test('a host that alone has blobs waits with its jobs until others have them; forced, it says what is lost', async () => {
  await using world = await startHosts(3);
  const lines: string[] = [];
  const report = (line: string) => lines.push(line);
  let left = 2;
  const checkAlone = async () => {
    left -= 1;
    const soleCopies = { count: left, bytes: 3e6, digests: [] };
    if (left > 0) throw new FlynnError('conflict', `it alone has ${left} blob`, { detail: { soleCopies } });
  };
  const options = { isForced: false, report, checkBlobs: checkAlone, listVolumes, hasMember };
  assert.equal(await leave(world.store, joined('host3'), options), true);
  assert.equal(lines[0], 'it alone has 1 blob: waiting until another has them');
  assert.match(lines[1] ?? '', /moving .* to other hosts/);
  left = 100;
  assert.equal(await leave(world.store, joined('host2'), { ...options, isForced: true }), true);
  assert.ok(lines.includes('it alone has 99 blob: lost with its disk, as you force it'), lines.join('; '));
});

test('forced to leave, a host moves its jobs also when nobody says which blobs it alone has', async () => {
  await using world = await startHosts(3);
  const lines: string[] = [];
  const checkBlobs = async () => {
    throw new FlynnError('unavailable', 'no blob store is announced');
  };
  const options = { isForced: true, report: (line: string) => lines.push(line), checkBlobs, listVolumes, hasMember };
  assert.equal(await leave(world.store, { hostId: 'host3', hasPlatform: true }, options), true);
  assert.match(lines[0] ?? '', /^what it alone has of blobs is not known \(no blob store is announced\) and lost/);
  assert.ok(lines.includes('its jobs run elsewhere'), lines.join('; '));
  const unforced = { ...options, isForced: false };
  await assert.rejects(leave(world.store, joined('host2'), unforced), { code: 'conflict' });
});

test('the last host just goes; the one that made the cluster stays while others are there', async () => {
  await using world = await startHosts(3);
  const first = { hostId: 'host1', hasPlatform: true };
  await assert.rejects(
    leave(world.store, first, { isForced: false, report: () => {}, checkBlobs, listVolumes, hasMember }),
    (error) => hasCode(error, 'conflict') && /host2, host3.*--take-over there.*--force/.test(error.message),
  );
  await using alone = await startTestController({ hosts: 1 });
  await leaseSubnet(alone.store, { hostId: 'host1', address: '192.0.2.1', range: '100.100.0.0/16', now: 0 });
  assert.equal(
    await leave(alone.store, first, { isForced: false, report: () => {}, checkBlobs, listVolumes, hasMember }),
    false,
  );
});

test('a host that is a member of etcd still is not erased: all that the cluster knows may be on it alone', async () => {
  await using world = await startHosts(3);
  const lines: string[] = [];
  const report = (line: string) => void lines.push(line);
  const options = { isForced: false, report, checkBlobs, listVolumes, hasMember: async () => true, deadlineMs: 100 };
  const leaving = (more: Partial<typeof options>) => leave(world.store, joined('host3'), { ...options, ...more });
  // As `timeout` or `unavailable` it would be taken for a cluster that cannot be told, and the host would go.
  await assert.rejects(leaving({}), { code: 'conflict', message: /^etcd still counts host3 as a member.*--force/ });
  const silent = async (): Promise<never> => {
    throw new FlynnError('unavailable', 'etcd does not answer');
  };
  await assert.rejects(leaving({ hasMember: silent }), { code: 'conflict' });
  assert.ok(!lines.some((line) => /left the cluster/.test(line)), lines.join('; '));
  assert.equal(await leaving({ isForced: true }), true);
  assert.ok(lines.includes('etcd still counts host3 as a member: without it the cluster may be lost, as you force it'));
  assert.equal(await leaving({ hasMember }), true, 'typed again');
});

test('what apps keep on a host is not lost by mistake', async () => {
  await using world = await startHosts(3);
  const lines: string[] = [];
  const kept = { app: 'shop', type: 'db', name: 'data', bytes: 5 * 1024 ** 3 };
  const options = {
    isForced: false,
    report: (line: string) => void lines.push(line),
    checkBlobs,
    listVolumes,
    hasMember,
  };
  const leaving = (more: Partial<Parameters<typeof leave>[2]>) =>
    leave(world.store, joined('host3'), { ...options, ...more });
  const before = await leasesOf(world.store);
  await assert.rejects(
    leaving({ listVolumes: async () => [{ ...kept, name: 'old', bytes: undefined }, kept] }),
    (error) =>
      hasCode(error, 'conflict') && /data of shop db \(5\.0G\), old of shop db\. .*--force/.test(error.message),
  );
  const silent = async (): Promise<never> => {
    throw new FlynnError('unavailable', 'the agent does not answer');
  };
  // As `unavailable` it would be taken for a cluster that cannot be told, and the host would go.
  await assert.rejects(leaving({ listVolumes: silent }), {
    code: 'conflict',
    message: /not known: the agent.*--force/,
  });
  const unreadable = async (): Promise<never> => {
    throw new FlynnError('internal', 'its certificate cannot be read');
  };
  await assert.rejects(leaving({ listVolumes: unreadable }), { code: 'conflict', message: /cannot be read.*--force/ });
  assert.equal(lines.length, 0, 'nothing was begun');
  assert.deepEqual(await leasesOf(world.store), before, 'nothing was changed');
  assert.deepEqual(await wantedOf(world, 'host3'), { cordoned: false, tags: {} }, 'it takes jobs again');
  assert.equal(await leaving({ listVolumes: async () => [kept], isForced: true }), true);
  assert.match(lines[0] ?? '', /^apps keep data on volumes of this host: data of shop db .*: lost with its disk/);
  assert.ok(lines.includes('its jobs run elsewhere'), lines.join('; '));
  // Typed again once its agent has ended, that it has left is no word on what is here.
  await assert.rejects(leaving({ listVolumes: silent }), { code: 'conflict' });
  assert.equal(await leaving({}), true);
  const forced = { ...options, listVolumes: unreadable, isForced: true };
  assert.equal(await leave(world.store, joined('host2'), forced), true);
  assert.ok(
    lines.some((line) => /^what apps keep .* is not known \(its certificate cannot be read\)/.test(line)),
    lines.join('; '),
  );
});

test('nothing new comes to a host from its first look at what apps keep there, and it looks again at the end', async () => {
  await using world = await startHosts(3);
  const kept = { app: 'shop', type: 'db', name: 'data', bytes: undefined };
  const looks: boolean[] = [];
  const options = { isForced: false, report: () => {}, checkBlobs, hasMember };
  const late = async () => {
    looks.push((await wantedOf(world, 'host3')).cordoned);
    return looks.length === 1 ? [] : [kept];
  };
  await assert.rejects(leave(world.store, joined('host3'), { ...options, listVolumes: late }), {
    code: 'conflict',
    message: /data of shop db.*Nothing was erased$/,
  });
  assert.deepEqual(looks, [true, true]);
  assert.equal((await leasesOf(world.store)).length, 3);
  assert.deepEqual(await wantedOf(world, 'host3'), { cordoned: false, tags: {} }, 'it takes jobs again');
  // What people said of it before stays.
  const limits = { signal: AbortSignal.timeout(30_000), now: Date.now() };
  await changeSettings(world.store, 'host3', { cordoned: true }, limits);
  looks.length = 0;
  await assert.rejects(leave(world.store, joined('host3'), { ...options, listVolumes: late }), { code: 'conflict' });
  assert.equal((await wantedOf(world, 'host3')).cordoned, true);
});

test('what apps keep on a host is looked at, too, where the cluster does not count it among its own any more', async () => {
  await using world = await startHosts(3);
  // By `flynn host remove`, before its machine came back.
  await releaseSubnet(world.store, 'host3');
  const options = { isForced: false, report: () => {}, checkBlobs, hasMember };
  const listKept = async () => [{ app: 'shop', type: 'db', name: 'data', bytes: undefined }];
  await assert.rejects(leave(world.store, joined('host3'), { ...options, listVolumes: listKept }), {
    code: 'conflict',
    message: /data of shop db/,
  });
  assert.equal(await leave(world.store, joined('host3'), { ...options, listVolumes }), true);
});

test('a host whose lease cannot be read stays, and takes jobs, unless it is forced to go', async () => {
  await using world = await startHosts(3);
  const options = { isForced: false, report: () => {}, checkBlobs, listVolumes, hasMember };
  const value = '{"hostId":"host3","subnets":["of a version to come"]}';
  await world.store.transact({ then: [{ put: leaseKey('host3'), value }] });
  await assert.rejects(leave(world.store, joined('host3'), options), { code: 'conflict', message: /--force/ });
  assert.deepEqual(await wantedOf(world, 'host3'), { cordoned: false, tags: {} });
  assert.equal(await leave(world.store, joined('host3'), { ...options, isForced: true }), true);
  assert.equal(await world.store.get(leaseKey('host3')), undefined);
});

test('a member of etcd does not leave while the lease of another host cannot be read: nobody could let it go', async () => {
  await using world = await startHosts(3);
  const options = { isForced: false, report: () => {}, checkBlobs, listVolumes };
  const value = '{"hostId":"host2","subnets":["of a version to come"]}';
  await world.store.transact({ then: [{ put: leaseKey('host2'), value }] });
  await world.store.transact({ then: [{ put: memberKey('host3'), value: '{}' }] });
  await assert.rejects(leave(world.store, joined('host3'), { ...options, hasMember: async () => true }), {
    code: 'conflict',
    message: /the subnet of host2 is not known[^]*flynn host remove host2[^]*--force/,
  });
  assert.notEqual(await world.store.get(leaseKey('host3')), undefined);
  assert.deepEqual(await wantedOf(world, 'host3'), { cordoned: false, tags: {} });
  await world.store.transact({ then: [{ delete: memberKey('host3') }] });
  assert.equal(await leave(world.store, joined('host3'), { ...options, hasMember: async () => false }), true);
});

test('a host that could not leave etcd is one of the cluster as before: its subnet is its own, and it takes jobs', async () => {
  await using world = await startHosts(3);
  const options = { isForced: false, report: () => {}, checkBlobs, listVolumes };
  const before = await leasesOf(world.store);
  const leases: number[] = [];
  const stays = async () => {
    leases.push((await leasesOf(world.store)).length);
    return true;
  };
  await assert.rejects(leave(world.store, joined('host3'), { ...options, hasMember: stays, deadlineMs: 100 }), {
    code: 'conflict',
  });
  assert.equal(leases[0], 2, 'upon which etcd takes its member away');
  assert.deepEqual(await leasesOf(world.store), before);
  assert.deepEqual(await wantedOf(world, 'host3'), { cordoned: false, tags: {} });
});

test('who waits for data that was on a host that left is told by name', async () => {
  await using world = await startHosts(1, ['data']);
  const [job] = await world.jobsOf('shop', 1);
  const hostId = job?.hostId ?? '';
  await end(world, hostId);
  await assert.rejects(
    forget(world.store, hostId, { deadlineMs: 3_000 }),
    (error) => hasCode(error, 'conflict') && error.message.includes(job?.workloadId ?? 'a workload'),
  );
});
