import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { untilTogether } from '@flynn/bootstrap/test-hosts/cluster-view';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

/** How its work was moved is told for an hour, in evaluations; everything else is gone. */
const isOf = (key: string, host: string): boolean =>
  !key.startsWith('/flynn/cell/evaluations/') && key.split('/').includes(host);

/** As `flynn host remove` leaves it of a host that is away. */
async function unlease(cluster: TestCluster, hostId: string): Promise<void> {
  await using store = await cluster.store();
  const key = `/flynn/network/hosts/${hostId}`;
  const { subnet } = JSON.parse((await store.get(key))?.value ?? '{}') as { subnet: string };
  const subnetKey = `/flynn/network/subnets/${subnet.replace('/', '-')}`;
  await store.transact({ then: [{ delete: key }, { delete: subnetKey }] });
}

async function untilState(cluster: TestCluster, hostId: string, state: string): Promise<void> {
  const isSo = async (): Promise<boolean> => {
    const { stdout } = await cluster.flynn(['host', 'list', '--json']);
    return (JSON.parse(stdout) as { id: string; state: string }[]).some(
      (one) => one.id === hostId && one.state === state,
    );
  };
  await waitFor(isSo, { what: `${hostId} to be ${state}`, deadlineMs: 120_000, intervalMs: 500 });
}

export function describeReturn(theCluster: () => TestCluster): void {
  test('a host that was removed and is back takes no jobs before an `up` there, and loses nothing by a `down`', async () => {
    const cluster = theCluster();
    const host = cluster.hosts.at(-1);
    assert.ok(host !== undefined && host !== cluster.host);
    await unlease(cluster, host.name);
    await untilState(cluster, host.name, 'cordoned');
    const { stdout } = await cluster.exec([cluster.hostCommand, 'doctor'], { host, env: host.settings, code: 'any' });
    assert.match(stdout, /the cluster has no lease of its subnet/);
    const name = (await host.readCluster())?.name ?? '';
    const kept = `flynn-${name}.aaaaaaaaaaaa.db.data`;
    await cluster.dockerOf(host, 'volume', 'create', '--label', `flynn.cluster=${name}`, kept);
    const { stderr } = await cluster.down({ host, code: 1 });
    assert.match(stderr, /apps keep data on volumes of this host: data of aaaaaaaaaaaa db/);
    await cluster.dockerOf(host, 'volume', 'rm', kept);
    await host.up();
    await untilState(cluster, host.name, 'up');
    await untilTogether(cluster.hosts);
  });
}

export function describeLeaving(theCluster: () => TestCluster): void {
  test('`down` takes a host out: its jobs run on the others, which keep no trace of it', async () => {
    const cluster = theCluster();
    const [first, second, third] = cluster.hosts;
    assert.ok(first && second && third);
    const name = (await third.readCluster())?.name ?? '';
    const kept = `flynn-${name}.aaaaaaaaaaaa.db.data`;
    await cluster.dockerOf(third, 'volume', 'create', '--label', `flynn.cluster=${name}`, kept);
    const { stderr } = await cluster.down({ host: third, code: 1 });
    assert.match(stderr, /apps keep data on volumes of this host: data of aaaaaaaaaaaa db/);
    await cluster.dockerOf(third, 'volume', 'rm', kept);
    await cluster.down({ host: third });
    assert.equal(existsSync(third.stateDir), false);
    assert.deepEqual(third.pids('host-agent'), []);
    const jobs = await cluster.untilRunning('express', 'web', 6);
    assert.ok(jobs.every(({ id }) => !id.startsWith(`${third.name}-`)));
    await cluster.untilHealthy('express', [first, second]);
    const { stdout } = await cluster.flynn(['host', 'list', '--json']);
    const ids = (JSON.parse(stdout) as { id: string }[]).map(({ id }) => id);
    assert.deepEqual(ids, [first.name, second.name]);
    // What stands on its lease in discovery goes with it.
    await waitFor(async () => !(await cluster.storeKeys()).some((key) => isOf(key, third.name)), {
      what: `the keys of ${third.name} to go`,
      deadlineMs: 120_000,
      intervalMs: 500,
    });
  });

  test('`down` on the rest leaves nothing', async () => {
    const cluster = theCluster();
    for (const host of cluster.hosts.slice(0, -1).toReversed()) await cluster.down({ host });
    for (const host of cluster.hosts) {
      assert.equal((await cluster.dockerOf(host, 'ps', '-aq')).stdout, '');
      assert.equal((await cluster.dockerOf(host, 'images', '-q')).stdout, '');
      assert.equal(existsSync(host.stateDir), false);
      assert.deepEqual(host.processes('host-agent'), []);
    }
  });
}
