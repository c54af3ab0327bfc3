import assert from 'node:assert/strict';
import { test } from 'node:test';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { startEtcdCluster } from './etcd-cluster.ts';
import { EtcdMembers } from './etcd-members.ts';
import { defragmentEtcd, etcdStatus } from './etcd-status.ts';

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
  /** Who leads, and how many elections there were until it did. */
  const leading = async (): Promise<{ endpoint: string; term: number }> => {
    const { endpoint } = await cluster.leader();
    const members = new EtcdMembers([endpoint]);
    try {
      return { endpoint, term: Number((await members.current.client.maintenance.status()).raftTerm) };
    } finally {
      members.close();
    }
  };
  /** Members that get too little of the processor elect by themselves: then it is begun anew. */
  const defragmented = async () => {
    for (const until = performance.now() + 150_000; performance.now() < until;) {
      const former = await leading();
      const asked: string[] = [];
      const onMember = (endpoint: string): void => void asked.push(endpoint);
      const { disarmed, failures } = await defragmentEtcd({ endpoints, signal: withDeadline(60_000), onMember });
      const { endpoint: leader, term } = await leading();
      if (term === former.term + 1) return { former: former.endpoint, leader, asked, disarmed, failures };
    }
    return assert.fail('it never had but the one election that it is to have itself');
  };
  const all = await defragmented();
  assert.deepEqual([all.disarmed, all.failures], [0, []]);
  assert.equal(all.asked.length, 3);
  assert.equal(all.asked.at(-1), all.former);
  assert.notEqual(all.leader, all.former);

  const frozen = cluster.members.find(({ endpoint }) => endpoint !== all.leader);
  await frozen?.freeze();
  const others = await defragmented();
  assert.equal(others.failures.length, 1);
  assert.ok(others.failures[0]?.startsWith(frozen?.endpoint ?? '-'), others.failures[0]);
  assert.equal(others.asked.length, 2);
  assert.equal(others.asked.at(-1), others.former);
});
