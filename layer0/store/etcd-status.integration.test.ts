import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { startEtcdCluster } from './etcd-cluster.ts';
import { etcdStatus } from './etcd-status.ts';

const image = process.env['FLYNN_TEST_ETCD_IMAGE'];

test('a member that has lost the others is not taken for one that is away: it tells that it knows of no leader', async () => {
  await using cluster = await startEtcdCluster({ members: 3, ...(image === undefined ? {} : { image }) });
  const { members, endpoints } = cluster;
  await Promise.all(members.slice(1).map((member) => member.kill()));
  const answers = await waitFor(
    async () => {
      const seen = await etcdStatus({ endpoints, signal: withDeadline(2_000) });
      const told = seen.members.map(({ answer }) => answer && { leaderId: answer.leaderId });
      return told[0] !== undefined && told[0].leaderId === undefined && told;
    },
    { what: 'the first to miss the others', deadlineMs: 60_000 },
  );
  assert.deepEqual(answers, [{ leaderId: undefined }, undefined, undefined]);
});
