/** Writes that no member of etcd answers: how soon that is told, and what becomes of them. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { put } from './conformance.ts';
import { startEtcdCluster } from './etcd-cluster.ts';
import type { EtcdCluster } from './etcd-cluster.ts';
import type { EtcdMember } from './etcd-member.ts';
import { connectEtcd } from './etcd.ts';

const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
let cluster: EtcdCluster;

before(async () => {
  cluster = await startEtcdCluster({ members: 3, ...(image === undefined ? {} : { image }) });
});
after(() => cluster?.stop());

/** Knows that member alone. */
function connect({ endpoint }: EtcdMember, options: { timeoutMs?: number } = {}) {
  return connectEtcd({ endpoints: [endpoint], log: silentLogger(), ...options });
}

/** A store that knows a follower alone and has written `key` through it, before its leader is frozen, until disposed of. */
async function withFrozenLeader(key: string, options: { timeoutMs: number }) {
  const leader = await cluster.leader();
  const follower = cluster.members.find((member) => member !== leader);
  assert.ok(follower !== undefined);
  const store = connect(follower, options);
  let beganMs = 0;
  try {
    await waitFor(() => put(store, key, 'before'), { what: 'the write before', deadlineMs: 60_000 });
    beganMs = performance.now();
    await leader.freeze();
  } catch (error) {
    await store.close();
    throw error;
  }
  return {
    leader,
    store,
    /** How long freezing took. */
    tookMs: performance.now() - beganMs,
    async [Symbol.asyncDispose]() {
      await Promise.all([leader.thaw(), store.close()]);
    },
  };
}

test('a write on its way to a leader that went is not waited for until its deadline', async () => {
  // On a machine that stands still its follower may have noticed before it is asked to write, who led is forgotten after three
  // seconds, and after seven of them etcd gives up by itself.
  for (const until = performance.now() + 200_000; performance.now() < until;) {
    await using frozen = await withFrozenLeader('/lost', { timeoutMs: 15_000 });
    const sentMs = performance.now();
    const outcome = await put(frozen.store, '/lost', 'after').catch((error: unknown) => error);
    if (typeof outcome === 'number' || frozen.tookMs > 2_000 || performance.now() - sentMs > 6_500) continue;
    assert.ok(hasCode(outcome, 'timeout') && /another member leads since/.test(String(outcome)), String(outcome));
    return;
  }
  assert.fail('no write was under way when the leader went, or each was waited for');
});

/** Writes to /late, what nobody answers and then `newer`; the leader of before, which goes on. */
async function writeWithoutLeader(): Promise<EtcdMember> {
  await using frozen = await withFrozenLeader('/late', { timeoutMs: 1_500 });
  const { store, leader } = frozen;
  await Promise.allSettled([1, 2, 3].map(() => put(store, '/late', 'older')));
  await waitFor(() => put(store, '/late', 'newer'), { what: 'another leader', deadlineMs: 60_000 });
  return leader;
}

test("a write that was not answered takes no later one's place when the leader it lay with goes on", async () => {
  for (let attempt = 0; attempt < 4; attempt += 1) {
    const leader = await writeWithoutLeader();
    await using woken = connect(leader);
    await waitFor(() => put(woken, '/woken', 'new'), { what: 'the woken member', deadlineMs: 60_000 });
    assert.equal((await woken.get('/late'))?.value, 'newer');
  }
});
