import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { apps, releases } from '@flynn/controller/api';
import { type TestController, startTestController } from '@flynn/controller/testing';
import { authoritiesKey, namedOf } from '@flynn/host-agent/cluster/authority-rounds';
import { ensureKeeper, readKeeper, replaceKeeper } from '@flynn/host-agent/cluster/keeper';
import { leaseSubnet } from '@flynn/host-agent/cluster/subnets';
import { addSealingKeys } from '@flynn/host-agent/cluster/sealing-keys';
import { readUpdate, writeUpdate } from '@flynn/host-agent/update/record';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { newSecret } from '@flynn/kit/secrets';
import { createAuthority } from '@flynn/kit/tls';
import { cellKeys } from '@flynn/scheduler/cell';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { makeRing } from '@flynn/store/sealing/ring';
import { announceSealingKey } from '@flynn/store/sealing/sealing-key-change';
import type { Store } from '@flynn/store/store';
import { withClosing, withIssuing, withNextAuthority } from '../rotation/authority-round.ts';
import { unkeptText } from './keeping.ts';
import { versionOfThis } from '../origin.ts';
import { runProgram } from '../machine/program.ts';
import { beginning } from '../rotation/rotation.ts';
import { made } from '../cluster-fixture.ts';
import { withNextSealingKey } from '../rotation/sealing-key-round.ts';
import type { Cluster } from '../settings.ts';
import { ensureHostKey, readCluster, writeCluster } from '../state.ts';
import { checkKept, keepHostKey, ofAnotherVersion, takeOverIn, takenOverText, whileKept } from './take-over.ts';

const authority = createAuthority('flynn');
const newAuthority = () => createAuthority('flynn');

/** As the host that made the cluster has it, and one that joined. */
async function clusters(): Promise<{ first: Cluster; joined: Cluster }> {
  const cluster = { ...made(), authority: await authority };
  const first = { ...cluster, tokens: { round: 2 }, domains: { former: ['old.net'], isMoving: false } };
  const own = { hostId: 'h2', address: '192.0.2.8', subnet: '100.100.1.0/24', peers: ['192.0.2.7'] };
  return { first, joined: { ...cluster, ...own, hasPlatform: false } };
}

async function withFolder(task: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'take-over-'));
  try {
    await task(folder);
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

async function deploy(world: TestController, app: string, env: Record<string, string>): Promise<void> {
  const { client } = world;
  await client.call(apps.create, { body: { name: app, isSystem: true } });
  const body = { type: 'image', image: { name: 'test/image' } } as const;
  const { id: artifactId } = await client.call(releases.createArtifact, { body });
  const release = { artifactId, env, processes: { web: {} } };
  const { id } = await client.call(releases.create, { params: { app }, body: release });
  assert.equal((await world.deploy(app, id)).state, 'complete');
}

const fileOf = async (stateDir: string): Promise<Cluster> => {
  const cluster = await readCluster(stateDir);
  assert.ok(cluster);
  return cluster;
};

test('another host takes over with what the one before gave the platform, and that one finds itself one of the others', () =>
  withFolder(async (folder) => {
    await using world = await startTestController();
    const { store } = world;
    const keyFile = join(folder, 'key');
    await runProgram('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'flynn', '-f', keyFile], {
      timeoutMs: 20_000,
    });
    await deploy(world, 'git-receiver', { FLYNN_SSH_HOST_KEY: await readFile(keyFile, 'utf8') });
    await deploy(world, 'controller', {
      FLYNN_KEY: 'k',
      FLYNN_CONTROLLER_KEY: 'root',
      FLYNN_TOKEN_ROUNDS: '2',
      FLYNN_DOMAIN: 'apps.net',
      FLYNN_FORMER_DOMAINS: 'old.net',
      FLYNN_HTTP_PORT: '8080',
      FLYNN_HTTPS_PORT: '9443',
      FLYNN_GIT_URL: 'ssh://git@apps.net:2022',
    });
    const { first, joined } = await clusters();
    assert.equal((await ensureKeeper(store, { hostId: 'h1', since: first.createdAt })).hostId, 'h1');
    const stateDir = join(folder, 'second');
    await writeCluster(stateDir, joined);

    const taken = await takeOverIn(store, { stateDir, cluster: joined }, newAuthority);
    assert.deepEqual(
      [taken.hasPlatform, taken.domain, taken.domains, taken.authorityChange, taken.etcdEndpoints],
      [true, 'apps.net', { former: ['old.net'], isMoving: false }, undefined, joined.etcdEndpoints],
    );
    assert.deepEqual([taken.httpPort, taken.httpsPort, taken.gitPort], [8080, 9443, 2022]);
    assert.deepEqual(await fileOf(stateDir), taken);
    const [type, key] = (await readFile(`${keyFile}.pub`, 'utf8')).split(' ');
    const publicKeyOf = async (place: string) => (await ensureHostKey(place)).publicKey.trim().split(' ').slice(0, 2);
    assert.deepEqual(await publicKeyOf(stateDir), [type, key]);
    // As where all that is left of the first is a copy of its cluster.json.
    const anew = join(folder, 'first');
    await writeCluster(anew, first);
    assert.notDeepEqual(await publicKeyOf(anew), [type, key]);
    await keepHostKey(store, anew);
    assert.deepEqual(await publicKeyOf(anew), [type, key]);
    const keeper = await readKeeper(store);
    assert.equal(keeper?.hostId, 'h2');
    assert.deepEqual(
      await takeOverIn(store, { stateDir, cluster: taken }, newAuthority),
      taken,
      'again changes nothing',
    );
    assert.deepEqual(await readKeeper(store), keeper);
    await checkKept(store, { stateDir, cluster: taken }, keeper);

    const formerDir = join(folder, 'first');
    await writeCluster(formerDir, first);
    await leaseSubnet(store, { ...taken, now: 0 });
    await writeUpdate(formerDir, { version: '0.2.0', since: first.createdAt });
    await assert.rejects(checkKept(store, { stateDir: formerDir, cluster: first }, keeper), (error: Error) => {
      assert.match(error.message, /^h2 keeps the platform since \S+, and this host is one of the others/);
      return hasCode(error, 'conflict');
    });
    assert.equal(await readUpdate(formerDir), undefined, 'an update that it was at is not its own any more');
    const demoted = await fileOf(formerDir);
    assert.deepEqual(
      [demoted.hasPlatform, demoted.peers, demoted.controllerKey, demoted.domain, demoted.tokens, demoted.domains],
      [false, ['192.0.2.8'], 'root', 'apps.net', undefined, undefined],
    );
    const back = await takeOverIn(store, { stateDir: formerDir, cluster: demoted }, newAuthority);
    assert.deepEqual([back.hasPlatform, (await readKeeper(store))?.hostId], [true, 'h1']);
  }));

async function announce(store: Store, cluster: Cluster): Promise<void> {
  const value = JSON.stringify({ ...namedOf(cluster), since: '2026-01-01T00:00:00.000Z' });
  await store.transact({ then: [{ put: authoritiesKey, value }] });
}

test('an authority that was being made anew is gone on with; while who began it is there, that is for it to do', () =>
  withFolder(async (folder) => {
    await using world = await startTestController();
    const { store } = world;
    const { first, joined } = await clusters();
    await ensureKeeper(store, { hostId: 'h1', since: first.createdAt });
    const { authorityChange: _opening, ...opening } = await withNextAuthority(
      joined,
      await newAuthority(),
      beginning(),
    );
    const begun = await withIssuing(await withNextAuthority(joined, await newAuthority(), beginning()));
    const { authorityChange: _issuing, ...issuing } = begun;
    const { authorityChange: _closing, ...closing } = withClosing(begun);

    const capacity = { memoryBytes: 1, cpuMillis: 1 };
    const record = { id: 'h1', address: '192.0.2.7', apiPort: 1113, capacity, startedAt: 0 };
    await store.transact({ then: [{ put: cellKeys.host('h1'), value: JSON.stringify(record) }] });
    await announce(store, issuing);
    const take = (cluster: Cluster, name: string) =>
      takeOverIn(store, { stateDir: join(folder, name), cluster }, newAuthority);
    await assert.rejects(take(issuing, 'early'), (error: Error) => {
      assert.match(error.message, /^the authority is being made anew by h1, which is there/);
      return hasCode(error, 'conflict');
    });
    assert.equal(await readCluster(join(folder, 'early')), undefined);
    await store.transact({ then: [{ delete: cellKeys.host('h1') }] });
    await assert.rejects(take(joined, 'behind'), (error: unknown) => hasCode(error, 'unavailable'));
    assert.equal((await readKeeper(store))?.hostId, 'h1');

    const issued = await take({ ...issuing, hostId: 'h2' }, 'issuing');
    assert.deepEqual([issued.authorityChange?.phase, issued.authority], ['issuing', issuing.authority]);
    await store.transact({
      then: [{ put: cellKeys.host('h2'), value: JSON.stringify({ ...record, id: 'h2' }) }],
    });
    await assert.rejects(take({ ...issuing, hostId: 'h3' }, 'other'), (error: unknown) => hasCode(error, 'conflict'));
    const goneOn = await take({ ...issuing, hostId: 'h2' }, 'issuing');
    assert.equal(goneOn.authorityChange?.phase, 'issuing', 'broken off before it was on its disk, it is gone on with');
    await store.transact({ then: [{ delete: cellKeys.host('h2') }] });
    await announce(store, closing);
    const closed = await take({ ...closing, hostId: 'h3' }, 'closing');
    assert.deepEqual([closed.authorityChange?.phase, closed.alsoTrusted], ['closing', undefined]);
    await announce(store, opening);
    const again = await take({ ...opening, hostId: 'h4' }, 'opening');
    assert.equal(again.authorityChange?.phase, 'opening');
    assert.ok(again.authorityChange.next !== undefined, 'the key of the one before was on that host alone');
    assert.notEqual(again.alsoTrusted?.certificate, opening.alsoTrusted?.certificate);
    assert.equal(again.authorityRound, (opening.authorityRound ?? 0) + 1);
  }));

test('a sealing key that was to be goes on to be it, as far as this host has it', () =>
  withFolder(async (folder) => {
    await using world = await startTestController();
    const { store } = world;
    const { first, joined } = await clusters();
    await ensureKeeper(store, { hostId: 'h1', since: first.createdAt });
    await makeRing(store, { sealingKey: sealKeyOf(joined.sealingKey), newId, now: new Date(0) });
    const next = newSecret();
    await announceSealingKey(store, sealKeyOf(next));
    const stateDir = join(folder, 'second');
    await writeCluster(stateDir, joined);
    await addSealingKeys(stateDir, [joined.sealingKey, next]);
    const taken = await takeOverIn(store, { stateDir, cluster: joined }, newAuthority);
    assert.deepEqual([taken.sealingKey, taken.sealingKeyChange?.next], [joined.sealingKey, next]);

    const third = { ...joined, hostId: 'h3' };
    const { sealingKeyChange } = await takeOverIn(
      store,
      { stateDir: join(folder, 'third'), cluster: third },
      newAuthority,
    );
    assert.ok(sealingKeyChange?.next !== undefined && sealingKeyChange.next !== next, 'nobody is left who has it');
  }));

test('what a host had begun when it kept the platform before is not taken up again', () =>
  withFolder(async (folder) => {
    await using world = await startTestController();
    const { store } = world;
    const { first } = await clusters();
    await ensureKeeper(store, { hostId: 'h2', since: first.createdAt });
    const begun = withNextSealingKey(
      await withNextAuthority(first, await newAuthority(), beginning()),
      's',
      beginning(),
    );
    // Its agent has taken over by now what the others have.
    const { alsoTrusted: _lost, ...back } = { ...begun, tokens: { round: 3, former: 2 } };
    const taken = await takeOverIn(store, { stateDir: folder, cluster: back }, newAuthority);
    const { authorityChange, sealingKeyChange, tokens, hasPlatform } = taken;
    assert.deepEqual([authorityChange, sealingKeyChange, tokens], [undefined, undefined, undefined]);
    assert.deepEqual([hasPlatform, taken.etcdEndpoints, taken.peers], [true, first.etcdEndpoints, first.peers]);
  }));

test('an authority that a host was about to name is trusted by it no more, once another keeps the platform', () =>
  withFolder(async (folder) => {
    await using world = await startTestController();
    const { store } = world;
    const { first } = await clusters();
    const keeper = await ensureKeeper(store, { hostId: 'h2', since: first.createdAt });
    const named = await withNextAuthority(first, await newAuthority(), beginning());
    const unnamed = await withNextAuthority(first, await newAuthority(), beginning());
    const back = async (cluster: Cluster) => {
      await assert.rejects(checkKept(store, { stateDir: folder, cluster }, keeper), (error) =>
        hasCode(error, 'conflict'),
      );
      const { alsoTrusted, authorityRound, authorityChange } = await fileOf(folder);
      assert.equal(authorityChange, undefined);
      return { alsoTrusted, authorityRound };
    };
    assert.deepEqual(await back(unnamed), { alsoTrusted: undefined, authorityRound: 0 });
    await announce(store, named);
    assert.deepEqual(await back(unnamed), { alsoTrusted: undefined, authorityRound: 0 });
    assert.deepEqual(await back(named), { alsoTrusted: named.alsoTrusted, authorityRound: 1 });
  }));

test('a step of the platform is not begun once another host has taken over in the middle of an `up`', () =>
  withFolder(async (folder) => {
    await using world = await startTestController();
    const { store } = world;
    const { first } = await clusters();
    const own = { stateDir: folder, cluster: first };
    const former = await ensureKeeper(store, { hostId: 'h1', since: first.createdAt });
    const begun: string[] = [];
    const step = whileKept({ title: 'Services', run: async (report) => report('begun') }, (task) => task(store, own));
    const take = () => step.run((line) => begun.push(line));
    await take();
    await replaceKeeper(store, former, { hostId: 'h2', since: new Date(0).toISOString() });
    await assert.rejects(async () => await take(), { code: 'conflict', message: /^h2 keeps the platform/ });
    assert.deepEqual([begun, (await fileOf(folder)).hasPlatform], [['begun'], false]);
  }));

test('who is told to keep the platform, and who is to be of its version, is told by what', async () => {
  const { first, joined } = await clusters();
  const keeper = { hostId: 'h2', since: first.createdAt };
  assert.match(unkeptText(joined, keeper), /said to be kept here.*--take-over gets it$/);
  assert.deepEqual([unkeptText(first, keeper), unkeptText({ ...joined, hasPlatform: true }, keeper)], ['', '']);
  assert.doesNotMatch(takenOverText(joined, []), /different versions/);
  // In the repository no host is moved by another.
  const text = takenOverText(joined, ['h3 0.0.1']);
  assert.match(text, /h3 0\.0\.1, and here are programs of [^]*npm run up/);
  assert.doesNotMatch(text, /flynn-host update/);
});

test('a host that does not tell its version, for whatever reason, is in the way of no other that takes over', async () => {
  const answers: Record<string, () => Promise<string>> = {
    h2: () => Promise.resolve('0.0.1'),
    h3: () => Promise.reject(new FlynnError('internal', 'calling host h3 failed: certificate has expired')),
    h4: () => Promise.resolve(versionOfThis()),
  };
  const hosts = Object.keys(answers).map((id) => ({ id }));
  const ask = ({ id }: { id: string }): Promise<string> => answers[id]?.() ?? Promise.reject(new Error(id));
  assert.deepEqual(await ofAnotherVersion(hosts, ask), ['h2 0.0.1']);
});

test('a host without a router takes nothing over: it could not look after the platform', () =>
  withFolder(async (folder) => {
    await using world = await startTestController();
    const { store } = world;
    const { first, joined } = await clusters();
    const keeper = await ensureKeeper(store, { hostId: 'h1', since: first.createdAt });
    const worker = { put: cellKeys.hostSettings('h2'), value: JSON.stringify({ tags: { router: 'no' } }) };
    await store.transact({ then: [worker] });
    await leaseSubnet(store, { ...joined, now: 0 });
    await assert.rejects(takeOverIn(store, { stateDir: folder, cluster: joined }, newAuthority), {
      code: 'conflict',
      message: /h2 is tagged router=no/,
    });
    assert.deepEqual([await readKeeper(store), await readCluster(folder)], [keeper, undefined]);
  }));
