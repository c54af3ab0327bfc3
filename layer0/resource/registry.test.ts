import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { z } from 'zod';
import { shelfType } from './demo.ts';
import { TypeRegistry } from './registry.ts';
import { tombstoneType } from './tombstone.ts';
import { defineType } from './type.ts';
import type { AnyType } from './type.ts';

const nothing = { spec: z.object({}), status: z.object({}), initialStatus: () => ({}) };
const plain = defineType({ name: 'cron-job', version: 1, ...nothing });

test('a type has a group, a version and a kind without saying so', () => {
  assert.deepEqual([plain.group, plain.version, plain.kind], ['flynn', 1, 'CronJob']);
});

test('a registry begins with the tombstone and finds a type by name and by what the API calls it', () => {
  const registry = new TypeRegistry();
  assert.deepEqual(registry.all(), [tombstoneType]);
  registry.register(shelfType);
  assert.equal(registry.find('shelf'), shelfType);
  assert.equal(registry.resolve('demo', 'v1', 'Shelf'), shelfType);
  assert.throws(
    () => registry.resolve('demo', 'v1', 'Shelv'),
    (error) => hasCode(error, 'not_found') && /did you mean demo\/v1\/Shelf/.test(error.message),
  );
  assert.throws(() => registry.resolve('demo', 'v2', 'Shelf'), /no kind demo\/v2\/Shelf/);
});

test('what may be owned by a type is what says so, or says nothing', () => {
  const ofShelves = defineType({ name: 'book', version: 1, ...nothing, owner: 'shelf' });
  const ofOthers = defineType({ name: 'page', version: 1, ...nothing, owner: 'book' });
  const registry = new TypeRegistry([shelfType, ofShelves, ofOthers]);
  assert.deepEqual(
    registry.ownedBy('shelf').map(({ name }) => name),
    ['tombstone', 'shelf', 'book'],
  );
});

const malformed: [string, AnyType, RegExp][] = [
  ['a name in capitals', { ...plain, name: 'Cron' }, /name of a resource type is lower-case/],
  ['a name with a slash', { ...plain, name: 'a/b' }, /name of a resource type/],
  ['an empty group', { ...plain, group: '' }, /group of a resource type is snake_case/],
  ['a group in camel case', { ...plain, group: 'myTeam' }, /not "myTeam"/],
  ['a group that ends in an underscore', { ...plain, group: 'my_' }, /snake_case/],
  ['a kind in lower case', { ...plain, kind: 'cronJob' }, /kind of a resource type is PascalCase/],
  ['a kind with an underscore', { ...plain, kind: 'Cron_Job' }, /PascalCase/],
  ['no version', { ...plain, version: 0 }, /has version 0/],
  ['half a version', { ...plain, version: 1.5 }, /has version 1.5/],
  [
    'an initial status that is none',
    defineType({ name: 'x', version: 1, spec: z.object({}), status: z.object({}), initialStatus: () => ({}) }),
    /initial status/,
  ],
];
for (const [what, type, pattern] of malformed) {
  test(`${what} is refused at registration`, () => {
    const given = pattern.source === 'initial status' ? { ...type, status: z.object({ a: z.string() }) } : type;
    assert.throws(
      () => new TypeRegistry([given]),
      (error) => hasCode(error, 'internal') && pattern.test(error.message),
    );
  });
}

test('a second type of a name, or of a group and kind, is refused', () => {
  const registry = new TypeRegistry([plain]);
  assert.throws(() => registry.register(plain), /cron-job is registered already/);
  assert.throws(
    () => registry.register({ ...plain, name: 'other' }),
    /has the kind flynn\/CronJob, which cron-job has/,
  );
  registry.register({ ...plain, name: 'other', group: 'mine' });
  assert.throws(() => registry.register(tombstoneType), /tombstone is registered already/);
});
