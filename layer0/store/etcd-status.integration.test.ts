import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { startEtcdCluster } from './etcd-cluster.ts';
import { defragmentEtcd, etcdStatus, leads } from './etcd-status.ts';

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

test('the leader gives its room back last, when another member leads; one that does not answer is in the way of nothing', async () => {
  await using cluster = await startEtcdCluster({ members: 3, ...(image === undefined ? {} : { image }) });
  const { endpoints } = cluster;
  const leaderOf = async (): Promise<string | undefined> => {
    const { members } = await etcdStatus({ endpoints, signal: withDeadline(5_000) });
    return members.find(leads)?.endpoint;
  };
  const former = await waitFor(leaderOf, { what: 'a leader', deadlineMs: 60_000 });
  const asked: string[] = [];
  const options = {
    endpoints,
    signal: withDeadline(60_000),
    onMember: (endpoint: string) => void asked.push(endpoint),
  };
  assert.deepEqual(await defragmentEtcd(options), { disarmed: 0, failures: [] });
  assert.equal(asked.length, 3);
  assert.equal(asked.at(-1), former);
  const leader = await waitFor(leaderOf, { what: 'a leader', deadlineMs: 60_000 });
  assert.notEqual(leader, former);

  const frozen = cluster.members.find(({ endpoint }) => endpoint !== leader);
  await frozen?.freeze();
  asked.length = 0;
  const { failures } = await defragmentEtcd({ ...options, signal: withDeadline(60_000) });
  assert.equal(failures.length, 1);
  assert.ok(failures[0]?.startsWith(frozen?.endpoint ?? '-'), failures[0]);
  assert.equal(asked.length, 2);
  assert.equal(asked.at(-1), leader);
});
