/** Owners and uids, status and conditions, finalizers: from an object's making to its end. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { OpenStore } from '@flynn/store/conformance';
import { conflict, serviceOn, shelf } from './conformance-write.ts';
import { shelfType } from './demo.ts';
import { nameKey, resourceKey } from './keys.ts';
import type { ResourceService } from './service.ts';
import { isOwnedBy, tombstoneType } from './tombstone.ts';

const invalid = (pattern: RegExp) => (error: unknown) => hasCode(error, 'invalid') && pattern.test(error.message);

async function owned(service: ResourceService, owner: { type: string; id: string; uid?: string }, name: string) {
  return service.create(shelfType, { ...shelf(name), owner });
}

export function checkLifecycles(open: OpenStore): void {
  test('a uid is of one object: made again under its id it has another, and a compare with the old fails', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const first = await service.create(shelfType, { ...shelf('a'), id: 'x' });
    await service.delete(shelfType, 'x');
    const second = await service.create(shelfType, { ...shelf('a'), id: 'x' });
    assert.notEqual(second.uid, first.uid);
    const late = service.update(shelfType, 'x', ({ spec }) => spec, { expectRevision: first.revision });
    await assert.rejects(late, conflict(/changed at the same time/));
    const wrong = service.delete(shelfType, 'x', { expectUid: first.uid });
    await assert.rejects(wrong, conflict(/another object/));
    assert.equal((await service.get(shelfType, 'x')).uid, second.uid);
    const again = service.update(shelfType, 'x', ({ spec }) => ({ ...spec, books: 7 }), { expectUid: second.uid });
    assert.equal((await again).uid, second.uid);
  });

  test('an owner is found by its id, kept with its uid, and cannot be one that is not there', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const owner = await service.create(shelfType, { ...shelf('owner'), id: 'o' });
    const child = await owned(service, { type: 'shelf', id: 'o' }, 'child');
    assert.deepEqual(child.owner, { type: 'shelf', id: 'o', uid: owner.uid });
    const changed = await service.update(shelfType, child.id, ({ spec }) => ({ ...spec, books: 4 }));
    assert.deepEqual(changed.owner, child.owner);
    await assert.rejects(owned(service, { type: 'shelf', id: 'nobody' }, 'b'), invalid(/owner: there is no shelf nob/));
    await service.delete(shelfType, 'o');
    await service.create(shelfType, { ...shelf('owner'), id: 'o' });
    const late = owned(service, { type: 'shelf', id: 'o', uid: owner.uid }, 'late');
    await assert.rejects(late, invalid(/another object now/));
  });

  test('what an object owned is not owned by the one made later under its id', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const first = await service.create(shelfType, { ...shelf('owner'), id: 'o' });
    const old = await owned(service, { type: 'shelf', id: 'o' }, 'old');
    await service.delete(shelfType, 'o');
    const second = await service.create(shelfType, { ...shelf('owner'), id: 'o' });
    const fresh = await owned(service, { type: 'shelf', id: 'o' }, 'fresh');
    const idsOf = async (uid: string) =>
      (await service.list(shelfType, { owner: { type: 'shelf', id: 'o', uid } })).map(({ id }) => id);
    assert.deepEqual(await idsOf(first.uid), [old.id]);
    assert.deepEqual(await idsOf(second.uid), [fresh.id]);
    assert.equal(isOwnedBy(old, { type: 'shelf', id: 'o' }), true);
  });

  test('records of before uids read with their id as uid', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const { id } = await service.create(shelfType, { ...shelf('a'), id: 'x' });
    const entry = await opened.store.get(resourceKey('shelf', id));
    const { uid: _uid, waitingFor: _waiting, conditions: _conditions, ...old } = JSON.parse(entry?.value ?? '{}');
    await opened.store.transact({ then: [{ put: resourceKey('shelf', id), value: JSON.stringify(old) }] });
    const read = await service.get(shelfType, id);
    assert.deepEqual([read.uid, read.conditions, read.waitingFor], ['x', [], {}]);
    assert.equal((await owned(service, { type: 'shelf', id }, 'child')).owner?.uid, 'x');
  });

  test('a status tells which generation it is of; telling the same again writes nothing', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const { id, revision } = await service.create(shelfType, shelf('a'));
    const report = (status: 'True' | 'False') => () => ({
      observedGeneration: 1,
      conditions: [{ type: 'Full', status, reason: 'Counted' }],
    });
    const first = await service.change(shelfType, id, report('False'));
    assert.ok(first.revision > revision);
    assert.deepEqual([first.generation, first.observedGeneration], [1, 1]);
    const { since } = first.conditions[0] ?? { since: '' };
    assert.equal((await service.change(shelfType, id, report('False'))).revision, first.revision);
    const other = { type: 'Dusted', status: 'Unknown', reason: 'NotLooked', message: 'nobody has looked' } as const;
    const second = await service.change(shelfType, id, () => ({ conditions: [other] }));
    assert.deepEqual(
      second.conditions.map((condition) => [condition.type, condition.status, condition.since === since]),
      [
        ['Dusted', 'Unknown', false],
        ['Full', 'False', true],
      ],
    );
    const third = await service.change(shelfType, id, report('True'));
    assert.notEqual(third.conditions.find(({ type }) => type === 'Full')?.since, since);
    assert.equal(third.generation, 1);
  });

  test('finalizers say what they wait for, until they are taken off; no others come while it is being deleted', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const { id } = await service.create(shelfType, { ...shelf('a'), finalizers: ['books', 'dust'] });
    await service.delete(shelfType, id);
    const told = await service.change(shelfType, id, () => ({ waitingFor: { books: '3 books are lent out' } }));
    assert.deepEqual(told.waitingFor, { books: '3 books are lent out' });
    assert.deepEqual((await service.delete(shelfType, id)).waitingFor, told.waitingFor);
    await assert.rejects(service.addFinalizer(shelfType, id, 'late'), conflict(/being deleted.*not late/));
    const less = await service.removeFinalizer(shelfType, id, 'books');
    assert.deepEqual([less.waitingFor, less.finalizers], [{}, ['dust']]);
    await service.removeFinalizer(shelfType, id, 'dust');
    assert.equal(await service.find(shelfType, id), undefined);
    assert.equal(await opened.store.get(nameKey('shelf', 'a')), undefined);
  });

  test('the spec of what is being deleted stays as it is, but for what its type names; the rest goes on', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const { id } = await service.create(shelfType, { ...shelf('a'), finalizers: ['books'] });
    await service.delete(shelfType, id);
    const rename = service.update(shelfType, id, ({ spec }) => ({ ...spec, name: 'b', books: 7 }));
    await assert.rejects(rename, conflict(/being deleted since .*it is not changed any more \(name, books\)/));
    const same = await service.update(shelfType, id, ({ spec }) => ({ ...spec }));
    assert.deepEqual([same.spec.name, same.generation], ['a', 1]);
    const open7 = { ...shelfType, changesWhileDeleting: ['books'] };
    const counted = await service.update(open7, id, ({ spec }) => ({ ...spec, books: 7 }));
    assert.deepEqual([counted.spec.books, counted.generation], [7, 2]);
    const renamed = service.update(open7, id, ({ spec }) => ({ ...spec, name: 'b' }));
    await assert.rejects(renamed, conflict(/\(name\)/));
    const report = {
      status: { books: 3 },
      conditions: [{ type: 'Full', status: 'False', reason: 'Counted' }],
    } as const;
    assert.equal((await service.change(shelfType, id, () => report)).status.books, 3);
    assert.deepEqual((await service.change(shelfType, id, () => ({ labels: { a: 'b' } }))).labels, { a: 'b' });
    await service.removeFinalizer(shelfType, id, 'books');
    assert.equal(await service.find(shelfType, id), undefined);
  });

  test('who is removed leaves a tombstone in the same moment; a tombstone leaves none', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const { id, uid } = await service.create(shelfType, shelf('a'));
    const before = await opened.store.list('/flynn/resource/');
    await service.delete(shelfType, id);
    const after = await opened.store.list('/flynn/resource/');
    assert.equal(after.revision, before.revision + 1);
    const [tombstone] = await service.list(tombstoneType);
    assert.deepEqual(tombstone?.spec, { type: 'shelf', id, uid });
    await service.delete(tombstoneType, tombstone.id);
    assert.deepEqual((await opened.store.list('/flynn/resource/')).entries, []);
  });

  test('hooks: a spec is put into its form, then checked, and what is wrong is told with its path', async () => {
    await using opened = await open();
    const service = serviceOn(opened.store);
    const loud = await service.create(shelfType, shelf('  Attic '));
    assert.equal(loud.spec.name, 'attic');
    await assert.rejects(service.create(shelfType, shelf('a b')), (error) => {
      assert.ok(hasCode(error, 'invalid'));
      assert.deepEqual(error.detail['issues'], [{ path: 'name', message: 'one lower-case word' }]);
      return true;
    });
    const heavy = service.create(shelfType, { spec: { name: 'pine', material: 'pine', books: 500 } });
    await assert.rejects(heavy, invalid(/\n {2}books: a shelf of pine holds 100 books/));
    const shape = service.create(shelfType, { spec: JSON.parse('{"name":"x","books":-1,"colour":"red"}') });
    await assert.rejects(shape, (error) => {
      assert.ok(hasCode(error, 'invalid'));
      assert.match(error.message, /\n {2}books: .*\n {2}colour: there is no such field/);
      return true;
    });
    const change = service.update(shelfType, loud.id, ({ spec }) => ({ ...spec, material: 'pine' }));
    await assert.rejects(change, invalid(/\n {2}material: it cannot change/));
    assert.deepEqual((await service.get(shelfType, loud.id)).spec, loud.spec);
  });
}
