import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { checkList, checkWrite, holds, mayRead, operator } from './access.ts';
import type { Asking, Role } from './access.ts';
import { draftOf } from './change.ts';
import { shelfType } from './demo.ts';
import { tombstoneType } from './tombstone.ts';
import type { Owner } from './type.ts';

const own: Owner = { type: 'app', id: 'mine' };
const other: Owner = { type: 'app', id: 'yours' };

function person(role: Role | undefined): Asking {
  return { name: 'ada', isOperator: false, roleOn: (owner) => (owner?.id === own.id ? role : undefined) };
}

const shelfOf = (owner: Owner) =>
  draftOf(shelfType, { spec: { name: 'a', books: 1 }, owner }, { newId: () => 'x', at: '2030-01-01T00:00:00.000Z' });

test('a role counts where it is held, and a higher one stands for the lower', () => {
  const rows: [Role | undefined, Role, boolean][] = [
    [undefined, 'viewer', false],
    ['viewer', 'viewer', true],
    ['viewer', 'developer', false],
    ['developer', 'viewer', true],
    ['admin', 'developer', true],
  ];
  for (const [held, wanted, expected] of rows) {
    assert.equal(holds(person(held), wanted, own), expected, `${held} as ${wanted}`);
    assert.equal(holds(person(held), wanted, other), false);
  }
});

test('a type’s hooks decide', () => {
  assert.equal(mayRead(shelfType, person('viewer'), shelfOf(own)), true);
  assert.equal(mayRead(shelfType, person('viewer'), shelfOf(other)), false);
  checkList(shelfType, person(undefined));
  checkWrite(shelfType, person('developer'), own);
  const isDenied = (error: unknown) =>
    hasCode(error, 'denied') && /ada may not change objects of kind Shelf of app/.test(error.message);
  assert.throws(() => checkWrite(shelfType, person('viewer'), own), isDenied);
  assert.throws(() => checkWrite(shelfType, person('developer'), other), isDenied);
});

test('without hooks only operators may', () => {
  const of = { spec: { type: 'a', id: 'b', uid: 'c' } };
  const stone = draftOf(tombstoneType, of, { newId: () => 'x', at: '2030-01-01T00:00:00.000Z' });
  assert.equal(mayRead(tombstoneType, person('admin'), stone), false);
  assert.throws(() => checkList(tombstoneType, person('admin')), /may not list objects of kind Tombstone/);
  assert.throws(() => checkWrite(tombstoneType, person('admin'), own), /may not change/);
  assert.equal(mayRead(tombstoneType, operator, stone), true);
  checkList(tombstoneType, operator);
  checkWrite(tombstoneType, operator, undefined);
});
