import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { ClusterHost } from '@flynn/bootstrap/test-hosts/cluster-host';
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';

const requestsPerLook = 60;

/** Until a host's router answers from each job that runs, and from no other. A host that is missed has others in their place. */
async function untilAllAnswer(cluster: TestCluster, host: ClusterHost): Promise<void> {
  const allAnswer = async (): Promise<true> => {
    const jobs = await cluster.untilRunning('express', 'web', 6);
    const answered = new Set<string>();
    for (let request = 0; request < requestsPerLook; request += 1) {
      const { status, body } = await cluster.get('express', '/', { host });
      assert.equal(status, 200, body);
      answered.add(/^instance (\S+)$/m.exec(body)?.[1] ?? '');
    }
    assert.deepEqual([...answered].sort(), jobs.map(({ id }) => id).sort());
    return true;
  };
  await waitFor(allAnswer, { what: `every job to answer through ${host.name}`, deadlineMs: 240_000 });
}

export function describeSharing(theCluster: () => TestCluster): void {
  test('an app pushed through the last host answers through each of them', async () => {
    const cluster = theCluster();
    const host = cluster.hosts.at(-1);
    assert.ok(host);
    const app = await cluster.checkout('express');
    await app.push({ host });
    for (const one of cluster.hosts) await cluster.untilAnswers('express', { host: one });
  });

  test('`flynn scale web=6` puts two on each host, and all six answer through each', async () => {
    const cluster = theCluster();
    await cluster.flynn(['-a', 'express', 'scale', 'web=6']);
    const jobs = (await cluster.untilRunning('express', 'web', 6)).map(({ id }) => id);
    const perHost = cluster.hosts.map(({ name }) => jobs.filter((id) => id.startsWith(`${name}-`)).length);
    assert.ok(
      perHost.every((count) => count >= 1),
      `spread ${perHost.join(', ')}`,
    );
    for (const host of cluster.hosts) await untilAllAnswer(cluster, host);
  });
}
