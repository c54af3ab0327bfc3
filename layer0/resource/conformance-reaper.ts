/** Cascading deletion: two passes, children with tombstones of their own, and nobody else's children. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { OpenStore } from '@flynn/store/conformance';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';
import { shelf } from './conformance-write.ts';
import { shelfType } from './demo.ts';
import { resourceKey } from './keys.ts';
import { reap, runReaper } from './reaper.ts';
import { isUnreadable } from './record.ts';
import { TypeRegistry } from './registry.ts';
import { ResourceService } from './service.ts';
import { firstPass, ownedReadable, tombstoneId, tombstoneType } from './tombstone.ts';
import { defineType } from './type.ts';

/** After the shelves, in the order they are gone through. */
const boxType = defineType({
  name: 'box',
  version: 1,
  spec: z.object({}),
  status: z.object({}),
  initialStatus: () => ({}),
});
const registry = new TypeRegistry([shelfType, boxType]);
const { signal } = new AbortController();

/** A service and a reaper on a clock that only the test moves. */
function worldOn(store: Store) {
  const clock = { nowMs: Date.UTC(2030, 0, 1) };
  const now = () => clock.nowMs;
  let ids = 0;
  const service = new ResourceService({ store, now, newId: () => `id-${(ids += 1)}`, log: silentLogger() });
  const reapOne = (id: string) => reap({ service, registry, now }, id, signal);
  return { clock, service, reapOne };
}

export function checkReaper(open: OpenStore): void {
  test('without children: marked in the first pass, gone in the second, and not before its time', async () => {
    await using opened = await open();
    const { clock, service, reapOne } = worldOn(opened.store);
    const { id, uid } = await service.create(shelfType, shelf('a'));
    await service.delete(shelfType, id);
    const tombstone = tombstoneId('shelf', uid);
    assert.deepEqual(await reapOne(tombstone), { againInMs: 30_000 });
    const marked = await service.get(tombstoneType, tombstone);
    assert.deepEqual(
      marked.conditions.map(({ type, status }) => [type, status]),
      [[firstPass, 'True']],
    );
    clock.nowMs += 29_000;
    assert.deepEqual(await reapOne(tombstone), { againInMs: 1_000 });
    clock.nowMs += 1_000;
    assert.equal(await reapOne(tombstone), undefined);
    assert.equal(await service.find(tombstoneType, tombstone), undefined);
    assert.equal(await reapOne(tombstone), undefined);
  });

  test('three children go in the first pass, a late one in the second, and each leaves its own tombstone', async () => {
    await using opened = await open();
    const { clock, service, reapOne } = worldOn(opened.store);
    const owner = await service.create(shelfType, shelf('owner'));
    const own = { type: 'shelf', id: owner.id, uid: owner.uid };
    const children = [];
    for (const name of ['a', 'b', 'c']) children.push(await service.create(shelfType, { ...shelf(name), owner: own }));
    const other = await service.create(shelfType, shelf('other'));
    // A write that had seen the owner and arrives after its end.
    const late = service.draft(shelfType, { ...shelf('late'), owner: own });
    await service.delete(shelfType, owner.id);
    const tombstone = tombstoneId('shelf', owner.uid);
    await reapOne(tombstone);
    const idsOf = async () => (await service.list(shelfType)).map(({ id }) => id);
    assert.deepEqual(await idsOf(), [other.id]);
    await service.commit([late.piece]);
    clock.nowMs += 30_000;
    await reapOne(tombstone);
    assert.deepEqual(await idsOf(), [other.id]);
    const left = (await service.list(tombstoneType)).map(({ id }) => id);
    assert.deepEqual(left, [...children, late.resource].map(({ uid }) => tombstoneId('shelf', uid)).toSorted());
  });

  test('a child with a finalizer is marked, and goes when that is taken off', async () => {
    await using opened = await open();
    const { service, reapOne } = worldOn(opened.store);
    const owner = await service.create(shelfType, shelf('owner'));
    const child = await service.create(shelfType, {
      ...shelf('a'),
      owner: { type: 'shelf', id: owner.id },
      finalizers: ['x'],
    });
    await service.delete(shelfType, owner.id);
    await reapOne(tombstoneId('shelf', owner.uid));
    assert.ok((await service.get(shelfType, child.id)).deletingSince !== undefined);
    await service.removeFinalizer(shelfType, child.id, 'x');
    assert.equal(await service.find(shelfType, child.id), undefined);
  });

  test('a child that cannot be read for now is not forgotten: it goes once it can be, and all others at once', async () => {
    await using opened = await open();
    const { store } = opened;
    const { clock, service, reapOne } = worldOn(store);
    const owner = await service.create(shelfType, shelf('owner'));
    const own = { type: 'shelf', id: owner.id, uid: owner.uid };
    const child = await service.create(shelfType, { ...shelf('a'), owner: own });
    const sibling = await service.create(shelfType, { ...shelf('b'), owner: own });
    const box = await service.create(boxType, { spec: {}, owner: own });
    const key = resourceKey('shelf', child.id);
    const { value = '' } = (await store.get(key)) ?? {};
    const write = (text: string) => store.transact({ then: [{ put: key, value: text }] });
    await write(JSON.stringify({ ...JSON.parse(value), version: shelfType.version + 1 }));
    await service.delete(shelfType, owner.id);
    const tombstone = tombstoneId('shelf', owner.uid);
    await assert.rejects(reapOne(tombstone), isUnreadable);
    assert.equal(await service.find(shelfType, sibling.id), undefined);
    assert.equal(await service.find(boxType, box.id), undefined);
    const told = await service.get(tombstoneType, tombstone);
    const [condition] = told.conditions;
    assert.deepEqual([condition?.type, condition?.status, told.conditions.length], [ownedReadable, 'False', 1]);
    assert.ok(condition?.message.startsWith(`${key} cannot be read`), condition?.message);
    await assert.rejects(reapOne(tombstone), isUnreadable);
    assert.equal((await service.get(tombstoneType, tombstone)).revision, told.revision, 'it is said once');
    await write(value);
    await reapOne(tombstone);
    assert.equal(await service.find(shelfType, child.id), undefined);
    const { conditions } = await service.get(tombstoneType, tombstone);
    assert.deepEqual(
      conditions.map(({ type, status }) => [type, status]),
      [
        [firstPass, 'True'],
        [ownedReadable, 'True'],
      ],
    );
    clock.nowMs += 30_000;
    await reapOne(tombstone);
    assert.equal(await service.find(tombstoneType, tombstone), undefined);
  });

  test('an object made again under the same id keeps its own children while the reaper takes the old one’s', async () => {
    await using opened = await open();
    const { store } = opened;
    let ids = 0;
    const service = new ResourceService({
      store,
      now: Date.now,
      newId: () => `id-${(ids += 1)}`,
      log: silentLogger(),
    });
    const owner = { type: 'shelf', id: 'o' };
    await service.create(shelfType, { ...shelf('owner'), id: 'o' });
    const old = await service.create(shelfType, { ...shelf('old'), owner });
    const grandchild = await service.create(shelfType, { ...shelf('inner'), owner: { type: 'shelf', id: old.id } });
    await service.delete(shelfType, 'o');
    await service.create(shelfType, { ...shelf('owner'), id: 'o' });
    const fresh = await service.create(shelfType, { ...shelf('fresh'), owner });
    const stop = new AbortController();
    const running = runReaper({
      service,
      registry,
      store,
      log: silentLogger(),
      signal: stop.signal,
      now: Date.now,
      secondPassMs: 20,
    });
    await waitFor(async () => (await service.list(tombstoneType)).length === 0, {
      what: 'the reaper to be through',
      deadlineMs: 60_000,
    });
    assert.equal(await service.find(shelfType, old.id), undefined);
    assert.equal(await service.find(shelfType, grandchild.id), undefined);
    assert.equal((await service.get(shelfType, fresh.id)).revision, fresh.revision);
    stop.abort();
    await running;
  });
}
