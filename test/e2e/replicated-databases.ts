/** A database with members on several hosts, which go and come back. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { pause } from '@flynn/kit/clock';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import { assertKept, longMs, membersOf, notesOf, pushGuestbook, startWriter, type Member } from './guestbook.ts';

const database = 'guestbook-postgres';
/** Longer than any lease that a host or a primary may have lasts without being renewed. */
const aWhileMs = 15_000;
/** It stays until the end of the suite. */
let lastConfirmed: string | undefined;

/** Until there is a primary, and a copy that has all that is committed: it may take over. */
function untilWhole(cluster: TestCluster, host: ClusterHost): Promise<Member[]> {
  return waitFor(
    async () => {
      const members = await membersOf(cluster, host);
      const isWhole =
        members.length === 2 &&
        members.some(({ role }) => role === 'primary') &&
        members.some(({ role, isSynchronous }) => role === 'replica' && isSynchronous);
      return isWhole ? members : undefined;
    },
    { what: 'a primary and a copy', deadlineMs: longMs, intervalMs: 500 },
  );
}

async function primaryHost(cluster: TestCluster, host: ClusterHost): Promise<ClusterHost> {
  const members = await untilWhole(cluster, host);
  const name = members.find(({ role }) => role === 'primary')?.host;
  return cluster.hosts.find((one) => one.name === name) ?? assert.fail(`no host ${name}`);
}

function other(cluster: TestCluster, ...than: readonly ClusterHost[]): ClusterHost {
  return cluster.hosts.find((host) => !than.includes(host)) ?? assert.fail('there is no other host');
}

/** It changes with each member that becomes the primary. */
async function timelineOf(cluster: TestCluster, host: ClusterHost): Promise<string> {
  const sql = 'SELECT pg_walfile_name(pg_current_wal_lsn())';
  const { stdout } = await cluster.flynn(['-a', 'guestbook', 'pg', 'psql', '--sql', sql, '--', '-At'], { host });
  return stdout.slice(0, 8);
}

export function describeReplicatedDatabase(theCluster: () => TestCluster): void {
  test('a database has a member on each of two hosts; the primary is moved by hand, and nothing that was confirmed is lost', async (t) => {
    const cluster = theCluster();
    const { host } = cluster;
    await pushGuestbook(cluster);
    await cluster.flynn(['-a', 'guestbook', 'scale', 'web=2']);
    const from = await primaryHost(cluster, host);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    await cluster.flynn(['-a', 'guestbook', 'pg', 'switchover']);
    await writer.more(10);
    await assertKept(t, { writer, cluster, host });
    assert.notEqual((await primaryHost(cluster, host)).name, from.name);
  });

  test('the store stands still for longer than any lease: all is written, and who is primary stays it', async (t) => {
    const cluster = theCluster();
    const { host } = cluster;
    await untilWhole(cluster, host);
    const before = await timelineOf(cluster, host);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    for (const one of cluster.hosts) one.freezeStore();
    try {
      await pause(aWhileMs, t.signal);
    } finally {
      for (const one of cluster.hosts) one.thawStore();
    }
    await writer.more(100);
    await assertKept(t, { writer, cluster, host });
    assert.equal(writer.refused, 0);
    assert.equal(await timelineOf(cluster, host), before);
  });

  test('its members begin anew with other limits, one after the other: the primary goes last and hands over once', async (t) => {
    const cluster = theCluster();
    const { host } = cluster;
    await untilWhole(cluster, host);
    const before = await timelineOf(cluster, host);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    await cluster.flynn(['-a', database, 'limit', 'set', 'postgres', 'memory=600MB'], { timeoutMs: 600_000 });
    await writer.more(10);
    await assertKept(t, { writer, cluster, host });
    assert.equal(parseInt(await timelineOf(cluster, host), 16), parseInt(before, 16) + 1);
  });

  test('its primary leaves a host that drains, for another that has all that was confirmed', async (t) => {
    const cluster = theCluster();
    const from = await primaryHost(cluster, cluster.host);
    const host = other(cluster, from);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    await cluster.flynn(['host', 'drain', from.name], { host });
    try {
      const hasLeft = async () =>
        (await membersOf(cluster, host)).some((member) => member.role === 'primary' && member.host !== from.name);
      await waitFor(hasLeft, { what: 'another primary', deadlineMs: longMs, intervalMs: 500 });
      await writer.more(10);
    } finally {
      await cluster.flynn(['host', 'undrain', from.name], { host });
    }
    await assertKept(t, { writer, cluster, host });
  });

  test('the host of its primary loses power: the copy takes over with all that was confirmed, and the host follows it', async (t) => {
    const cluster = theCluster();
    const lost = await primaryHost(cluster, cluster.host);
    const host = other(cluster, lost);
    const writer = startWriter(cluster, host);
    await writer.more(10);
    await lost.cutPower();
    await writer.more(20);
    lastConfirmed = (await assertKept(t, { writer, cluster, host })).at(-1);
    await lost.boot();
    assert.notEqual((await primaryHost(cluster, host)).name, lost.name);
  });
}

/** After whatever else befell the hosts. */
export function describeLastingDatabase(theCluster: () => TestCluster): void {
  test('a database that lost hosts, one after the other and all at once, has all that was confirmed, and a copy', async () => {
    const cluster = theCluster();
    const { host } = cluster;
    await untilWhole(cluster, host);
    const notes = await notesOf(cluster, host);
    assert.deepEqual(notes[0], 'first');
    assert.deepEqual(notes.at(-1), lastConfirmed);
    await cluster.flynn(['-a', 'guestbook', 'delete', '-y']);
    // Its database goes after it, by itself; a host that has a volume of it is not let go before.
    const hasGone = async () => !(await cluster.flynn(['volume'])).stdout.includes('postgres');
    await waitFor(hasGone, { what: 'the database to go with its app', deadlineMs: longMs, intervalMs: 500 });
  });
}
