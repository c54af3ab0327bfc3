import assert from 'node:assert/strict';
import { test } from 'node:test';
import { authoritiesKey, readNamed } from '@flynn/host-agent/cluster/authority-rounds';
import { leaseKey } from '@flynn/host-agent/network/lease';
import { hasCode } from '@flynn/kit/errors';
import { createAuthority } from '@flynn/kit/tls';
import { cellKeys } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { type AuthorityWork, beginAuthority, changeAuthority, checkBeginning } from './authority-change.ts';
import { withIssuing } from './authority-round.ts';
import { made } from '../cluster-fixture.ts';

const hostIds = ['h1', 'h2'];

/** A cluster whose hosts take over what the store names as soon as somebody looks. What is done to it is written down. */
async function openWorld() {
  const store = createMemoryStore();
  const former = await createAuthority('flynn');
  const log: string[] = [];
  const hosts = new Map(hostIds.map((id) => [id, { isThere: true, knowsRounds: true, isStuck: false, round: 0 }]));
  const write = async (): Promise<void> => {
    const named = (await readNamed(store))?.round ?? 0;
    for (const [id, host] of hosts) {
      await store.transact({
        then: [
          {
            put: leaseKey(id),
            value: JSON.stringify({ hostId: id, address: '192.0.2.7', subnet: '100.100.0.0/24', joinedAt: 0 }),
          },
        ],
      });
      if (!host.isStuck) host.round = Math.max(host.round, named);
      const capacity = { memoryBytes: 1, cpuMillis: 1 };
      const told = host.knowsRounds ? { authorityRound: host.round } : {};
      const record = { id, address: '192.0.2.7', apiPort: 1113, capacity, startedAt: 0, ...told };
      const key = cellKeys.host(id);
      await store.transact({ then: [host.isThere ? { put: key, value: JSON.stringify(record) } : { delete: key }] });
    }
  };
  await write();
  const world = {
    store,
    former,
    log,
    hosts,
    cluster: { ...made(), authority: former },
    /** Dies before this is done; a part of it may be. */
    diesAt: '',
    write,
  };
  const note = (what: string): void => {
    const { phase } = world.cluster.authorityChange ?? { phase: 'no change' };
    log.push(`${phase}: ${what}`);
    if (world.diesAt !== `${phase}: ${what}`) return;
    world.diesAt = '';
    throw new Error('killed');
  };
  const work: AuthorityWork = {
    async withStore(task) {
      await write();
      return task(store);
    },
    async become(cluster) {
      world.cluster = cluster;
      note('written');
    },
    async deployControllers() {
      note('controllers');
    },
    async showToPeople() {
      note('people');
    },
    async forgetFormer() {
      note('forgotten');
    },
    async tell(_cluster, outcome) {
      note(`told ${outcome}`);
    },
    report: () => undefined,
    clock: { sleep: async () => undefined },
  };
  return Object.assign(world, { work });
}

const whole = [
  'opening: written',
  'opening: told begun',
  'opening: controllers',
  'issuing: written',
  'issuing: controllers',
  'issuing: people',
  'closing: written',
  'closing: controllers',
  'closing: people',
  'closing: forgotten',
  'closing: told done',
  'no change: written',
];

test('all phases, one after the other, each named in the store before anybody else is brought up to date', async () => {
  const world = await openWorld();
  const next = await createAuthority('flynn');
  await checkBeginning(world.store, { sick: [], hosts: [] });
  const begun = await beginAuthority(world.work, world.cluster, next);
  const done = await changeAuthority(world.work, begun);
  assert.deepEqual(world.log, whole);
  assert.equal(done, world.cluster);
  assert.deepEqual([done.authority, done.alsoTrusted, done.authorityChange], [next, undefined, undefined]);
  assert.equal((await readNamed(world.store))?.round, 3);
  for (const { round } of world.hosts.values()) assert.equal(round, 3);
});

for (const at of whole) {
  test(`broken off at "${at}" it is gone on with, to the same end`, async () => {
    const world = await openWorld();
    const next = await createAuthority('flynn');
    world.diesAt = at;
    const run = async (): Promise<void> => {
      await changeAuthority(world.work, await beginAuthority(world.work, world.cluster, next));
    };
    await assert.rejects(run(), /killed/);
    // Another key is made each time; one that is under way counts.
    if (world.cluster.authorityChange !== undefined) await changeAuthority(world.work, world.cluster);
    assert.deepEqual([world.cluster.authority, world.cluster.authorityChange], [next, undefined]);
    assert.equal((await readNamed(world.store))?.round, 3);
    assert.equal(new Set(world.log).size, whole.length, 'every part, some of them twice');
  });
}

test('a host that does not take a round over keeps the next from beginning', async (t) => {
  const world = await openWorld();
  const stuck = world.hosts.get('h2');
  assert.ok(stuck);
  stuck.isStuck = true;
  const said: string[] = [];
  const work = { ...world.work, report: (line: string) => void said.push(line) };
  const running = changeAuthority(work, await beginAuthority(work, world.cluster, await createAuthority('flynn')));
  await t.waitFor(() => assert.ok(said.some((line) => line.includes('not yet: h2'))), { timeout: 60_000 });
  assert.ok(!world.log.includes('opening: controllers'));
  stuck.isStuck = false;
  await running;
  assert.deepEqual(world.log, whole);
});

test('it does not begin without a host, with a member that is silent, with a host of a version before', async () => {
  const world = await openWorld();
  const refused = (what: RegExp) => (error: unknown) => hasCode(error, 'conflict') && what.test(String(error));
  await assert.rejects(
    checkBeginning(world.store, { sick: ['h1 (gone)'], hosts: [] }),
    refused(/h1 \(gone\).*Nothing was changed/),
  );
  const host = world.hosts.get('h2');
  assert.ok(host);
  host.isThere = false;
  await world.write();
  await assert.rejects(
    checkBeginning(world.store, { sick: [], hosts: [] }),
    refused(/h2 is away.*flynn host remove.*Nothing was changed/),
  );
  Object.assign(host, { isThere: true, knowsRounds: false });
  await world.write();
  await assert.rejects(
    checkBeginning(world.store, { sick: [], hosts: [], patientMs: 1_000 }),
    refused(/h2: of a version that has the same authority.*Nothing was changed/),
  );
  assert.equal(await readNamed(world.store), undefined);
});

test('it does not begin while the clock of a host is so far off that it would take new certificates for not valid yet', async () => {
  const world = await openWorld();
  const minutes = (count: number): number => count * 60_000;
  const near = [{ id: 'h1', clockOffsetMs: 0 }, { id: 'h2', clockOffsetMs: minutes(-20) }, { id: 'h3' }];
  await checkBeginning(world.store, { sick: [], hosts: near });
  for (const clockOffsetMs of [minutes(-40), minutes(40)]) {
    await assert.rejects(
      checkBeginning(world.store, { sick: [], hosts: [...near, { id: 'h4', clockOffsetMs }] }),
      (error) =>
        hasCode(error, 'conflict') && /clocks of this host and of h4 .*timedatectl.*Nothing was/.test(String(error)),
    );
  }
});

test('of two that write, and with a file that was put back, the store keeps the later round', async () => {
  const world = await openWorld();
  const begun = await beginAuthority(world.work, world.cluster, await createAuthority('flynn'));
  const issuing = await withIssuing(begun);
  await changeAuthority(world.work, issuing);
  await assert.rejects(
    changeAuthority(world.work, begun),
    (error) => hasCode(error, 'conflict') && /round 3, and cluster\.json here of round 1/.test(String(error)),
  );
  assert.ok((await world.store.get(authoritiesKey)) !== undefined);
});
