import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { test } from 'node:test';
import { addSealingKeys } from '@flynn/host-agent/cluster/sealing-keys';
import { type SealedHost, sealedHosts } from '@flynn/host-agent/cluster/sealing-keys-fixture';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { cellKeys } from '@flynn/scheduler/cell';
import { createMemoryStore } from '@flynn/store/memory';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { rewriteAll } from '@flynn/store/sealing/rewrite';
import { makeRing, readRing, retireOldKeys, sealedUnder } from '@flynn/store/sealing/ring';
import { SealedStore } from '@flynn/store/sealing/sealed-store';
import { announceNext, sealAnew, untilRewritten } from './sealing-key-change.ts';
import {
  sealingKeysOf,
  withNextSealingKey,
  withRingsKey,
  withSealed,
  withoutSealingChange,
} from './sealing-key-round.ts';
import { checkRotated } from './rotation.ts';
import { made } from '../cluster-fixture.ts';
import { type Cluster, clusterSchema, sharedSchema } from '../settings.ts';

const begun = { id: '0199c0de-0000-7000-8000-000000000000', since: new Date(0).toISOString() };
const next = 'the-new-sealing-key';
const key = '/flynn/resource/app/a';
const report = () => undefined;

function recordOf(id: string, told: object) {
  const capacity = { memoryBytes: 1, cpuMillis: 1 };
  const record = { id, address: '192.0.2.7', apiPort: 1113, capacity, startedAt: 0, ...told };
  return { put: cellKeys.host(id), value: JSON.stringify(record) };
}

/** A cluster of two hosts that goes through what `up` does, in its order; whether all can read is looked at after each part. */
async function openWorld(before: Cluster) {
  const raw = createMemoryStore();
  const { sealingKey } = before;
  await makeRing(raw, { sealingKey: sealKeyOf(sealingKey), newId: randomUUID, now: new Date(0) });
  const made = await readRing(raw);
  assert.ok(made && (await retireOldKeys(raw, made)));
  const all = await sealedHosts(raw);
  const h1 = await all.add('h1', [sealingKey]);
  await all.add('h2', [sealingKey]);
  const openWith = (keys: () => Promise<readonly string[]>) =>
    new SealedStore(raw, { sealingKeys: keys, log: silentLogger() });
  await openWith(async () => [sealingKey]).transact({ then: [{ put: key, value: 'a secret' }] });
  const look = async (host: SealedHost): Promise<void> => {
    try {
      await host.look();
    } catch (error) {
      assert.ok(hasCode(error, 'unavailable'), String(error));
    }
    await raw.transact({ then: [recordOf(host.id, host.keys.told())] });
  };
  const world = {
    raw,
    all,
    look,
    file: before,
    controllers: [sealingKeysOf(before)],
    async check(): Promise<void> {
      const readers = [
        ...all.hosts.map((host) => openWith(host.onDisk)),
        ...world.controllers.map((keys) => openWith(async () => keys)),
        openWith(async () => [...sealingKeysOf(world.file), ...(await h1.onDisk())]),
      ];
      for (const reader of readers) assert.equal((await reader.get(key))?.value, 'a secret');
    },
    async up(begunAs: Cluster, end: number): Promise<void> {
      let left = end;
      const part = async (act: () => Promise<unknown> | void): Promise<void> => {
        if (left <= 0) return;
        left -= 1;
        await act();
        await world.check();
      };
      const looks = () => part(async () => void (await Promise.all(all.hosts.map(look))));
      const deployController = async (): Promise<void> => {
        await part(() => void (world.controllers = [...world.controllers, sealingKeysOf(world.file)]));
        await part(() => void (world.controllers = world.controllers.slice(-1)));
      };
      await part(() => void (world.file = begunAs));
      await part(() => addSealingKeys(h1.stateDir, sealingKeysOf(world.file)));
      await looks();
      await part(async () => {
        world.file = withRingsKey(world.file, (await readRing(raw))?.ring, await h1.onDisk());
      });
      await part(() => announceNext(raw, world.file));
      await deployController();
      // An agent that looked before took it away.
      await part(() => addSealingKeys(h1.stateDir, sealingKeysOf(world.file)));
      await looks();
      await looks();
      const { stateDir } = h1;
      await part(() => sealAnew(raw, { stateDir, cluster: world.file, report }));
      await part(() => void (world.file = withSealed(world.file)));
      await deployController();
      await looks();
      await part(async () => {
        const worker = openWith(async () => world.controllers[0] ?? []);
        await rewriteAll(worker, { signal: AbortSignal.timeout(60_000) });
        const stored = await readRing(raw);
        assert.ok(stored && (await retireOldKeys(raw, stored)));
        await untilRewritten(raw, report);
      });
      await part(() => void (world.file = withoutSealingChange(world.file)));
    },
  };
  return world;
}

test('nobody is without the key that is in use at any moment, wherever it is broken off and gone on with', async () => {
  const before = made();
  const parts = 17;
  for (let end = 1; end <= parts; end += 1) {
    const world = await openWorld(before);
    await using _hosts = world.all;
    await world.up(withNextSealingKey(world.file, next, begun), end);
    await world.up(world.file, end);
    if (world.file.sealingKeyChange !== undefined) {
      await world.up(withNextSealingKey(world.file, 'another-that-is-not-begun', begun), end);
    }
    await world.up(world.file, parts);
    assert.deepEqual(world.file, { ...before, sealingKey: next }, `after ${end}`);
    assert.deepEqual(world.controllers, [[next]]);
    for (const host of world.all.hosts) assert.deepEqual(await host.onDisk(), [next]);
    const ring = (await readRing(world.raw))?.ring;
    assert.deepEqual([ring && sealedUnder(ring), ring?.keys.length], [sealKeyOf(next).id, 1]);
  }
});

test('the store is not sealed anew before every host that is there has both, and who has not is named', async () => {
  const world = await openWorld(made());
  await using _hosts = world.all;
  const [h1, h2] = world.all.hosts;
  assert.ok(h1 && h2);
  const cluster = withNextSealingKey(world.file, next, begun);
  for (const host of [h1, h2]) await world.look(host);
  await announceNext(world.raw, cluster);
  const { stateDir } = h1;
  await addSealingKeys(stateDir, sealingKeysOf(cluster));
  const told: string[] = [];
  const { promise: isTold, resolve: tell } = Promise.withResolvers<void>();
  const sealing = sealAnew(world.raw, {
    stateDir,
    cluster,
    report: (line) => {
      told.push(line);
      if (told.includes('h2 has the new sealing key not yet')) tell();
    },
  });
  await world.look(h1);
  await isTold;
  const ring = async () => (await readRing(world.raw))?.ring;
  const under = async () => sealedUnder((await ring()) ?? assert.fail('there is no ring'));
  assert.equal(await under(), sealKeyOf(cluster.sealingKey).id);
  await world.check();
  await world.look(h2);
  await sealing;
  assert.equal(await under(), sealKeyOf(next).id);
});

test('it does not begin where a host is of a version that knows one key only', async () => {
  const world = await openWorld(made());
  await using _hosts = world.all;
  const { id: sealingKeyId } = sealKeyOf(world.file.sealingKey);
  await world.raw.transact({ then: [recordOf('h1', { sealingKeyId }), recordOf('h3', { sealingKeyId })] });
  const beginning = announceNext(world.raw, withNextSealingKey(world.file, next, begun));
  await assert.rejects(
    beginning,
    (error) => hasCode(error, 'conflict') && /^h3: of a version.*Nothing was changed/.test(error.message),
  );
  assert.equal((await readRing(world.raw))?.ring.next, undefined);
});

test('a store or a file that was put back to another time is taken as it is', async () => {
  const world = await openWorld(made());
  await using _hosts = world.all;
  const before = world.file;
  const changing = withNextSealingKey(before, next, begun);
  const ring = async () => (await readRing(world.raw))?.ring;
  assert.deepEqual(withRingsKey(changing, await ring(), []), changing);
  assert.deepEqual(withRingsKey(before, undefined, []), before);
  await announceNext(world.raw, changing);
  await announceNext(world.raw, before);
  assert.equal((await ring())?.next, undefined, 'nothing is under way as the file has it');
  await world.up(changing, 17);
  assert.deepEqual(withRingsKey(changing, await ring(), []), withSealed(changing));
  assert.deepEqual(withRingsKey(before, await ring(), [next]), { ...before, sealingKey: next });
  assert.deepEqual(withRingsKey(before, await ring(), ['neither']), before);
});

test('a snapshot of before is of use with the key of its time on one host: the others fetch it', async () => {
  const before = made();
  const world = await openWorld(before);
  await using _hosts = world.all;
  const snapshot = await world.raw.list('');
  await world.up(withNextSealingKey(before, next, begun), 17);
  await world.raw.transact({ then: snapshot.entries.map(({ key: put, value }) => ({ put, value })) });
  const [h1, h2] = world.all.hosts;
  assert.ok(h1 && h2);
  await assert.rejects(h2.look(), /no other host has the key/);
  const file = withRingsKey(before, (await readRing(world.raw))?.ring, await h1.onDisk());
  assert.deepEqual(file, before);
  await addSealingKeys(h1.stateDir, sealingKeysOf(file));
  await h1.look();
  await h2.look();
  for (const host of world.all.hosts) assert.deepEqual(await host.onDisk(), [before.sealingKey]);
});

test('a change that was broken off keeps its key, is nothing that hosts are told, and comes before another version', () => {
  const before = made();
  const changing = withNextSealingKey(before, next, begun);
  assert.deepEqual(withNextSealingKey(changing, 'another', begun), changing);
  assert.deepEqual(withNextSealingKey(withSealed(changing), 'another', begun), withSealed(changing));
  assert.deepEqual(clusterSchema.parse(JSON.parse(JSON.stringify(changing))), changing);
  assert.deepEqual(sharedSchema.parse(changing), sharedSchema.parse(before), 'they join with the one in use');
  for (const file of [changing, withSealed(changing)]) {
    assert.throws(
      () => checkRotated(file),
      (error) => hasCode(error, 'conflict') && /the sealing key is being/.test(error.message),
    );
  }
});
