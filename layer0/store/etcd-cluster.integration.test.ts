import assert from 'node:assert/strict';
import { Writable } from 'node:stream';
import { after, before, test } from 'node:test';
import { systemClock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { createLogger, silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { put, storeConformance } from './conformance.ts';
import { foreignTls, startEtcdCluster } from './etcd-cluster.ts';
import type { EtcdCluster } from './etcd-cluster.ts';
import { openProxied } from './etcd-fixture.ts';
import type { EtcdMember } from './etcd-member.ts';
import { connectEtcd } from './etcd.ts';
import { openMirror } from './mirror.ts';
import { startWriters } from './steady-writers.ts';
import type { Change, Store } from './store.ts';
import { lossyStore } from './testing.ts';

const log = silentLogger();
const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
let cluster: EtcdCluster;

before(async () => {
  cluster = await startEtcdCluster({ members: 3, tls: true, ...(image === undefined ? {} : { image }) });
});
after(() => cluster.stop());

function tls() {
  const { tls: own } = cluster;
  assert.ok(own !== undefined);
  return own;
}

function connect(endpoints: readonly string[], options: { timeoutMs?: number } = {}) {
  return connectEtcd({ endpoints, tls: tls(), log, ...options });
}

async function followers(): Promise<EtcdMember[]> {
  const leader = await cluster.leader();
  return cluster.members.filter((member) => member !== leader);
}

/** Knows all members and begins with this one. */
function connectAt(first: EtcdMember, options: { timeoutMs?: number } = {}) {
  const client = connect([first.endpoint], options);
  client.endpoints = cluster.endpoints;
  return client;
}

storeConformance(
  'the etcd store, on all of three members over TLS,',
  () => openProxied({ endpoints: cluster.endpoints, tls: tls() }),
  { leaseTtlSeconds: 6 },
);

storeConformance(
  'the etcd store, through a follower over TLS,',
  async () => {
    const [follower] = await followers();
    assert.ok(follower !== undefined);
    const leader = await cluster.leader();
    const through = { endpoints: [follower.endpoint], peerEndpoints: [leader.endpoint] };
    return openProxied({ ...through, tls: tls() });
  },
  { leaseTtlSeconds: 6 },
);

test('a client that the authority does not know is refused, and says why', async () => {
  const foreign = await foreignTls();
  const options = { endpoints: cluster.endpoints, log, timeoutMs: 10_000 };
  const isRefused = (pattern: RegExp) => (error: unknown) =>
    hasCode(error, 'unauthenticated') && pattern.test(error.message);
  await using unknown = connectEtcd({ ...options, tls: { ...foreign, ca: tls().ca } });
  await assert.rejects(unknown.get('/a'), isRefused(/does not accept this client's certificate/));
  await using misled = connectEtcd({ ...options, tls: { ...tls(), ca: foreign.ca } });
  await assert.rejects(misled.get('/a'), isRefused(/etcd's certificate is of another authority/));
  assert.throws(
    () => connectEtcd(options),
    (error) => hasCode(error, 'invalid') && /speaks TLS/.test(error.message),
  );
  const endpoints = cluster.endpoints.map((endpoint) => endpoint.replace('https', 'http'));
  assert.throws(
    () => connectEtcd({ ...options, endpoints, tls: tls() }),
    (error) => hasCode(error, 'invalid'),
  );
  await using plain = connectEtcd({ ...options, endpoints, timeoutMs: 5_000 });
  await assert.rejects(plain.get('/a'), (error) => hasCode(error, 'unavailable'));
});

test('a renewed certificate is shown from then on: what is under way ends well, watches miss nothing', async () => {
  let shown = 0;
  const renewed = {
    ...tls(),
    get certificate() {
      shown += 1;
      return tls().certificate;
    },
  };
  await using store = connectEtcd({ endpoints: cluster.endpoints, tls: renewed, log });
  await using mirror = await openMirror({ store, prefix: '/renewed/', decode: (json) => json, log });
  for (const round of [1, 2, 3]) {
    const before = shown;
    const pending = Promise.all([put(store, `/renewed/${round}`, '0'), store.get('/renewed/1')]);
    store.renewTls();
    assert.ok(shown > before);
    await pending;
    await mirror.reached(await put(store, '/renewed/last', String(round)), { deadlineMs: 30_000 });
  }
  assert.equal(mirror.snapshot.entries.size, 4);
});

/** Runs writers through every member while `strike` hits the leader, and checks that what was acknowledged is there. */
async function writeThrough(strike: (leader: EtcdMember) => Promise<void>): Promise<void> {
  const leader = await cluster.leader();
  const writers = cluster.members.map((member) => connectAt(member, { timeoutMs: 1_000 }));
  await using observer = connect((await followers()).map((member) => member.endpoint));
  await observer.transact({ then: [{ deletePrefix: '/stream/' }] });
  const stream = startWriters(writers, '/stream/');
  try {
    await stream.untilAcknowledged(100);
    await strike(leader);
    const struckMs = performance.now();
    const elected = waitFor(async () => (await cluster.leader()) !== leader && performance.now(), {
      what: 'another leader',
      deadlineMs: 60_000,
    });
    const resumedMs = await stream.untilWrittenAfter(struckMs);
    const electedMs = await elected;
    // A write under way when the leader went ends at its client's deadline of a second: the next one goes through. The rest is
    // for a machine that stands still meanwhile.
    const allowedMs = Math.max(electedMs - struckMs, 1_000) + 15_000;
    assert.ok(resumedMs - struckMs <= allowedMs, `resumed ${resumedMs - struckMs} ms, allowed ${allowedMs} ms`);
    await stream.untilAcknowledged(100);
  } finally {
    await stream.stop();
    await Promise.all(writers.map((writer) => writer.close()));
  }
  const { entries } = await observer.list('/stream/');
  const held = new Map(entries.map((entry) => [entry.key, entry.modRevision]));
  const lost = stream.acknowledged.filter(({ key, revision }) => held.get(key) !== revision);
  assert.deepEqual(lost, []);
}

test('no acknowledged write is lost with the leader, and writes go on once there is another', async () => {
  let struck: EtcdMember | undefined;
  await writeThrough(async (leader) => {
    struck = leader;
    await leader.kill();
  });
  await struck?.start();
});

test('a leader that stands still is replaced, and knows nothing old when it wakes up', async () => {
  let frozen: EtcdMember | undefined;
  try {
    await writeThrough(async (leader) => {
      frozen = leader;
      await leader.freeze();
    });
    await using through = connectAt(await cluster.leader());
    await waitFor(() => put(through, '/woken', 'new'), { what: 'a write', deadlineMs: 60_000 });
  } finally {
    await frozen?.thaw();
  }
  assert.ok(frozen !== undefined);
  await using old = connect([frozen.endpoint]);
  const entry = await waitFor(() => old.get('/woken'), { what: 'the woken member', deadlineMs: 60_000 });
  assert.equal(entry.value, 'new');
});

test('whichever member is silent, reads are answered and leases go on', async () => {
  await using opened = await openProxied({ endpoints: cluster.endpoints, tls: tls(), timeoutMs: 10_000 });
  const { store, peer, proxies } = opened;
  await put(peer, '/silent/a', '1');
  await using lease = await store.grantLease({ ttlSeconds: 10 });
  for (const proxy of proxies) {
    proxy.freeze();
    const frozenMs = performance.now();
    assert.equal((await store.get('/silent/a'))?.value, '1');
    await waitFor(() => lease.expiresAtMs > frozenMs + 10_000, { what: 'a renewal', deadlineMs: 60_000 });
    proxy.restore();
  }
  assert.equal(lease.lost.aborted, false);
});

test('a client that only watches leaves a member that was killed', async () => {
  const [victim] = await followers();
  assert.ok(victim !== undefined);
  const others = cluster.members.filter((member) => member !== victim).map((member) => member.endpoint);
  await using writer = connect(others);
  const start = await put(writer, '/only/a', '0');
  await using watcher = connectAt(victim);
  let isHeard = false;
  try {
    for await (const batch of watcher.watch('/only/', { after: start - 1, signal: withDeadline(60_000) })) {
      if (batch.changes.length === 0) continue;
      isHeard = batch.revision > start;
      if (isHeard) break;
      await victim.kill();
      await put(writer, '/only/a', '1');
    }
  } finally {
    await victim.start();
  }
  assert.ok(isHeard);
});

test('a member that has lost the others says so at once, and its watches do not stay quiet', async () => {
  const [lone, ...others] = cluster.members;
  assert.ok(lone !== undefined);
  const told: string[] = [];
  const destination = new Writable({
    write(chunk, _encoding, done) {
      told.push(String(chunk));
      done();
    },
  });
  const logged = createLogger('test', { level: 'debug', destination });
  await using store = connectEtcd({ endpoints: [lone.endpoint], tls: tls(), log: logged });
  const start = await put(store, '/lone/a', '0');
  const seen = collect(store, '/lone/', { after: start - 1, revisions: 2 });
  try {
    await Promise.all(others.map((other) => other.freeze()));
    await waitFor(() => told.some((line) => line.includes('watch broke') && line.includes('no leader')), {
      what: 'the end of the watch',
      deadlineMs: 60_000,
    });
    const refusal = await waitFor(
      async () => {
        await using writer = connect([lone.endpoint]);
        const error: unknown = await put(writer, '/lone/b', '1').catch((reason: unknown) => reason);
        // The last of its tries may have been too short for an answer.
        return !hasCode(error, 'timeout') && { error };
      },
      { what: 'the refusal of a write', deadlineMs: 60_000 },
    );
    assert.ok(hasCode(refusal.error, 'unavailable') && /no leader/.test(refusal.error.message), String(refusal.error));
  } finally {
    await Promise.all(others.map((other) => other.thaw()));
  }
  await waitFor(() => put(store, '/lone/a', '2'), { what: 'a leader', deadlineMs: 60_000 });
  // A write that was not answered may have been carried out, and then is there twice.
  assert.deepEqual([...new Set((await seen).map(valueOf))], ['0', '2']);
});

test('a watch whose connection is reset every 100 ms gets every event exactly once', async () => {
  await using opened = await openProxied({ endpoints: cluster.endpoints, tls: tls() });
  const { store, peer, proxies } = opened;
  const start = await put(peer, '/reset/0', 'start');
  await using mirror = await openMirror({ store, prefix: '/reset/', decode: (json) => json, log });
  const total = 600;
  const seen = collect(store, '/reset/', { after: start, revisions: total });
  const stopped = new AbortController();
  let resets = 0;
  const resetting = (async () => {
    while (!stopped.signal.aborted) {
      await systemClock.sleep(100);
      for (const proxy of proxies) proxy.reset();
      resets += 1;
    }
  })();
  const expected: [string, number][] = [];
  for (let i = 0; i < total; i += 1) {
    const keys = [`/reset/${i % 7}`, `/reset/x${i % 5}`];
    const result = await peer.transact({ then: keys.map((key) => ({ put: key, value: String(i) })) });
    expected.push(...keys.map((key): [string, number] => [key, result.revision]));
    // 5 ms each: three seconds, some thirty resets.
    await systemClock.sleep(5);
  }
  // On a slow machine no connection is up before it is reset: what was missed by then has to come after.
  stopped.abort();
  await resetting;
  const changes = await seen;
  assert.ok(resets >= 20, `only ${resets} resets`);
  assert.deepEqual(
    changes.map((change) => (change.type === 'put' ? [change.entry.key, change.entry.modRevision] : change)),
    expected,
  );
  const { entries, revision } = await peer.list('/reset/');
  const snapshot = await mirror.reached(revision, { deadlineMs: 60_000 });
  assert.deepEqual(
    new Map([...snapshot.entries].map(([key, { modRevision }]) => [`/reset/${key}`, modRevision])),
    new Map(entries.map((entry) => [entry.key, entry.modRevision])),
  );
  assert.equal(mirror.driftCount, 0);
});

function valueOf(change: Change): string | undefined {
  return change.type === 'put' ? change.entry.value : undefined;
}

async function collect(
  store: Store,
  prefix: string,
  options: { after: number; revisions: number },
): Promise<readonly Change[]> {
  const changes: Change[] = [];
  for await (const batch of store.watch(prefix, { after: options.after, signal: withDeadline(180_000) })) {
    changes.push(...batch.changes);
    if (batch.revision >= options.after + options.revisions) break;
  }
  return changes;
}

test('a mirror that has drifted from etcd is noticed, counted and healed', async () => {
  await using store = connect(cluster.endpoints);
  await put(store, '/drift/kept', '1');
  const losing = lossyStore(store, (key) => key.endsWith('lost'));
  await using mirror = await openMirror({
    store: losing,
    prefix: '/drift/',
    decode: (json) => json,
    log,
    resyncMs: 200,
  });
  await put(store, '/drift/lost', '2');
  await put(store, '/drift/kept', '3');
  // Not by reached(), which lists where a watch is late, and so heals without counting.
  const isHealed = () => mirror.snapshot.entries.get('lost')?.value === 2;
  const isFollowed = () => mirror.snapshot.entries.get('kept')?.value === 3;
  await waitFor(() => isHealed() && isFollowed(), { what: 'the healing', deadlineMs: 30_000 });
  // Twice where the watch overtook the listing that was to heal it.
  assert.ok(mirror.driftCount >= 1);
});
