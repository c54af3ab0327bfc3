/** Whose turn it is with a datastore. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Turns } from './turns.ts';

test('one at a time has it, until it is through; whoever has it is told that another does not wait', () => {
  const turns = new Turns();
  const first = turns.take('a');
  assert.ok(first !== undefined && turns.take('a') === undefined);
  using other = turns.take('b');
  turns.askFor('a');
  assert.deepEqual([first.wanted.aborted, other?.wanted.aborted], [true, false]);
  first[Symbol.dispose]();
  turns.askFor('a');
  using next = turns.take('a');
  assert.equal(next?.wanted.aborted, false);
});
