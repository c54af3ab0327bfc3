/** Writes: names, generations, compares, and what refuses a spec. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import type { OpenStore } from '@flynn/store/conformance';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';
import { shelfType } from './demo.ts';
import { nameKey, resourceKey } from './keys.ts';
import { claimName } from './piece.ts';
import { isUnreadable } from './record.ts';
import { ResourceService } from './service.ts';
import { defineType } from './type.ts';

const startMs = Date.UTC(2030, 0, 1);

export function serviceOn(store: Store): ResourceService {
  let nowMs = startMs;
  let ids = 0;
  return new ResourceService({
    store,
    now: () => (nowMs += 1000),
    newId: () => `id-${(ids += 1)}`,
    log: silentLogger(),
  });
}

export function conflict(pattern: RegExp) {
  return (error: unknown) => hasCode(error, 'conflict') && pattern.test(error.message);
}

export const shelf = (name: string, books = 1) => ({ spec: { name, books } });

export function checkWrites(open: OpenStore): void {
  test('a created resource has defaults, a generation, times and the revision it was written at', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const created = await service.create(shelfType, {
      ...shelf('a'),
      labels: { room: '1' },
    });
    assert.deepEqual(created, {
      type: 'shelf',
      id: 'id-1',
      uid: 'id-1',
      revision: (await store.list('/')).revision,
      generation: 1,
      createdAt: '2030-01-01T00:00:01.000Z',
      updatedAt: '2030-01-01T00:00:01.000Z',
      labels: { room: '1' },
      finalizers: [],
      waitingFor: {},
      conditions: [],
      spec: { name: 'a', material: 'oak', books: 1 },
      status: { books: 0 },
    });
    assert.deepEqual(await service.get(shelfType, 'id-1'), created);
    assert.ok(Object.isFrozen(created) && Object.isFrozen(created.spec));
  });

  test('a spec that does not fit its schema, and an id with a slash, are invalid', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const isInvalid = (error: unknown) => hasCode(error, 'invalid');
    await assert.rejects(service.create(shelfType, shelf('a', -1)), isInvalid);
    await assert.rejects(service.create(shelfType, { ...shelf('a'), id: 'a/b' }), isInvalid);
    assert.equal((await store.list('/')).entries.length, 0);
  });

  test('a spec change raises the generation, a status change does not, and no change writes nothing', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const { id, revision } = await service.create(shelfType, shelf('a'));
    const updated = await service.update(shelfType, id, ({ spec }) => ({ ...spec, books: 5 }));
    assert.deepEqual([updated.generation, updated.revision, updated.spec.books], [2, revision + 1, 5]);
    const reported = await service.updateStatus(shelfType, id, () => ({ books: 5 }));
    assert.deepEqual([reported.generation, reported.status.books], [2, 5]);
    const same = await service.update(shelfType, id, ({ spec }) => ({ ...spec }));
    assert.equal(same.revision, reported.revision);
    assert.deepEqual(await service.get(shelfType, id), reported);
  });

  test('an immutable field refuses to change', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const { id } = await service.create(shelfType, shelf('a'));
    const change = service.update(shelfType, id, ({ spec }) => ({ ...spec, material: 'pine' }));
    await assert.rejects(change, (error) => hasCode(error, 'invalid'));
  });

  test('concurrent updates all take effect', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const { id } = await service.create(shelfType, shelf('a', 0));
    const addOne = () => service.update(shelfType, id, ({ spec }) => ({ ...spec, books: spec.books + 1 }));
    await Promise.all(Array.from({ length: 8 }, addOne));
    const { spec, generation } = await service.get(shelfType, id);
    assert.deepEqual([spec.books, generation], [8, 9]);
  });

  test('an update that expects another revision is a conflict', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const { id, revision } = await service.create(shelfType, shelf('a'));
    await service.update(shelfType, id, ({ spec }) => ({ ...spec, books: 2 }), { expectRevision: revision });
    const late = service.update(shelfType, id, ({ spec }) => ({ ...spec, books: 3 }), { expectRevision: revision });
    await assert.rejects(late, conflict(/changed at the same time/));
  });

  test('a name belongs to one resource, moves with an update and is free after a deletion', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const first = await service.create(shelfType, shelf('a'));
    await assert.rejects(service.create(shelfType, shelf('a')), conflict(/already a shelf "a"/));
    const second = await service.create(shelfType, shelf('b'));
    const rename = service.update(shelfType, second.id, ({ spec }) => ({ ...spec, name: 'a' }));
    await assert.rejects(rename, conflict(/already a shelf "a"/));
    await service.update(shelfType, first.id, ({ spec }) => ({ ...spec, name: 'c' }));
    await service.update(shelfType, second.id, ({ spec }) => ({ ...spec, name: 'a' }));
    assert.equal((await service.lookup(shelfType, 'a')).id, second.id);
    assert.equal((await service.lookup(shelfType, 'c')).id, first.id);
    assert.equal((await service.lookup(shelfType, second.id)).spec.name, 'a');
    await service.delete(shelfType, second.id);
    await assert.rejects(service.lookup(shelfType, 'a'), (error) => hasCode(error, 'not_found'));
    assert.deepEqual(
      (await store.list('/flynn/name/')).entries.map((entry) => entry.key),
      [nameKey('shelf', 'c')],
    );
  });

  test('an id is used once', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    await service.create(shelfType, { ...shelf('a'), id: 'x' });
    await assert.rejects(service.create(shelfType, { ...shelf('b'), id: 'x' }), conflict(/already a shelf "x"/));
    assert.equal(await store.get(nameKey('shelf', 'b')), undefined);
  });

  test('what also says goes into the same transaction, and its conditions hold for all of it', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const created = await service.create(shelfType, shelf('a'), {
      also: ({ id }) => ({ then: [{ put: '/log', value: id }] }),
    });
    assert.equal((await store.get('/log'))?.modRevision, created.revision);
    const options = { also: () => ({ compare: [{ key: '/log', modRevision: 0 }], then: [] }) };
    const refused = service.update(shelfType, created.id, ({ spec }) => ({ ...spec, books: 9 }), options);
    await assert.rejects(refused, conflict(/depends on \/log/));
    assert.deepEqual(await service.get(shelfType, created.id), created);
    const noted = { also: () => ({ then: [{ put: '/log', value: 'seen' }] }) };
    await service.update(shelfType, created.id, ({ spec }) => spec, noted);
    assert.equal((await store.get('/log'))?.value, 'seen');
  });

  test('several resources are created together or not at all', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const roomType = defineType({
      name: 'room',
      version: 1,
      spec: z.object({}),
      status: z.object({}),
      initialStatus: () => ({}),
    });
    const room = service.draft(roomType, { spec: {} });
    const revision = await service.createMany([room, service.draft(shelfType, shelf('a'))], {
      also: claimName('door', 'front', room.resource.id),
    });
    assert.equal((await service.lookup(shelfType, 'a')).revision, revision);
    assert.equal((await service.get(roomType, room.resource.id)).revision, revision);
    const again = [service.draft(roomType, { id: 'other', spec: {} }), service.draft(shelfType, shelf('a'))];
    await assert.rejects(service.createMany(again), conflict(/already a shelf "a"/));
    assert.equal(await service.find(roomType, 'other'), undefined);
  });

  test('a resource with finalizers goes when the last one is taken off', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const { id } = await service.create(shelfType, { ...shelf('a'), finalizers: ['x', 'y'] });
    const marked = await service.delete(shelfType, id);
    assert.ok(marked.deletingSince !== undefined);
    assert.equal((await service.delete(shelfType, id)).revision, marked.revision);
    await service.removeFinalizer(shelfType, id, 'x');
    assert.equal((await service.get(shelfType, id)).deletingSince, marked.deletingSince);
    await service.removeFinalizer(shelfType, id, 'y');
    assert.equal(await service.find(shelfType, id), undefined);
    await assert.rejects(service.delete(shelfType, id), (error) => hasCode(error, 'not_found'));
  });

  test('taking the last finalizer off a resource nobody deletes keeps it', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const { id } = await service.create(shelfType, { ...shelf('a'), finalizers: ['x'] });
    await service.removeFinalizer(shelfType, id, 'x');
    assert.deepEqual((await service.get(shelfType, id)).finalizers, []);
  });

  test('a listing is by owner and condition, and leaves out what cannot be read', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const { id: owning } = await service.create(shelfType, shelf('owner'));
    const owner = { type: 'shelf', id: owning };
    await service.create(shelfType, { ...shelf('a', 1), owner });
    await service.create(shelfType, { ...shelf('b', 2), owner });
    await service.create(shelfType, shelf('c', 2));
    await store.transact({ then: [{ put: resourceKey('shelf', 'broken'), value: '{}' }] });
    const names = async (
      options: Parameters<
        typeof service.list<{ name: string; books: number; material: string }, { books: number }, unknown>
      >[1],
    ) => (await service.list(shelfType, options)).map(({ spec }) => spec.name);
    assert.deepEqual(await names({}), ['owner', 'a', 'b', 'c']);
    assert.deepEqual(await names({ namePrefix: 'o' }), ['owner']);
    assert.deepEqual(await names({ object: 'b' }), ['b']);
    assert.deepEqual(await names({ owner }), ['a', 'b']);
    assert.deepEqual(await names({ owner, where: ({ spec }) => spec.books === 2 }), ['b']);
    await assert.rejects(
      names({ isStrict: true, object: 'b' }),
      (error: unknown) => isUnreadable(error) && hasCode(error, 'internal') && error.message.includes('/shelf/broken '),
    );
    assert.deepEqual(await names({ isStrict: true, owner }), ['a', 'b'], 'it says of nobody that it is theirs');
    const later = new ResourceService({ store, now: () => startMs, newId: () => 'later', log: silentLogger() });
    await later.create({ ...shelfType, version: 2 }, { ...shelf('d'), owner });
    await assert.rejects(names({ isStrict: true, owner }), isUnreadable);
    assert.deepEqual(await names({ isStrict: true, owner: { type: 'shelf', id: 'another' } }), []);
  });

  test('a resource written by a later version is refused, naming the version', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    const later = new ResourceService({ store, now: () => startMs, newId: () => 'x', log: silentLogger() });
    await later.create({ ...shelfType, version: 2 }, shelf('a'));
    await assert.rejects(
      service.get(shelfType, 'x'),
      (error) => hasCode(error, 'invalid') && /v2.*v1/.test(error.message),
    );
  });

  test('a mirror holds typed resources with their revisions', async () => {
    await using opened = await open();
    const { store } = opened;
    const service = serviceOn(store);
    await using shelves = await service.mirror(shelfType);
    const created = await service.create(shelfType, shelf('a'));
    const snapshot = await shelves.reached(created.revision);
    assert.deepEqual(snapshot.entries.get(created.id)?.value, created);
  });
}
