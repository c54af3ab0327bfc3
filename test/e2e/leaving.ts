import assert from 'node:assert/strict';
import { existsSync } from 'node:fs';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

/** How its work was moved is told for an hour, in evaluations; everything else is gone. */
const isOf = (key: string, host: string): boolean =>
  !key.startsWith('/flynn/cell/evaluations/') && key.split('/').includes(host);

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
