import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Columns } from './columns.ts';
import { claimIn, commit, type ConflictMode, type HostClaim } from './transaction.ts';

/** Two schedulers plan on copies of two hosts with room for two each: one takes a place on host 0, the other on 0 and 1. */
function race(): { cell: Columns; first: HostClaim[]; second: HostClaim[] } {
  const cell = new Columns(2);
  for (const index of [0, 1]) cell.reset(index, 20, 2);
  const plan = (...hosts: number[]): HostClaim[] => {
    const copy = new Columns(2);
    copy.copyFrom(cell);
    return hosts.map((index) => claimIn(copy, index, 10, 1));
  };
  return { cell, first: plan(0), second: plan(1, 0) };
}

test('sequence numbers refuse what fit checks let through', () => {
  const outcomes = (['sequence_numbers', 'resource_fit'] as const).map((conflict) => {
    const { cell, first, second } = race();
    commit(cell, first, { conflict, transaction: 'incremental' });
    const { accepted, refused } = commit(cell, second, { conflict, transaction: 'incremental' });
    return [accepted.map(({ index }) => index), refused.map(({ index }) => index), [...cell.cpuFree]];
  });
  assert.deepEqual(outcomes, [
    [[1], [0], [1, 1]],
    [[1, 0], [], [0, 1]],
  ]);
});

test('all or nothing: one conflict takes everything back, but for the sequence numbers', () => {
  for (const conflict of ['sequence_numbers', 'resource_fit'] satisfies ConflictMode[]) {
    const { cell, first, second } = race();
    commit(cell, [...first], { conflict, transaction: 'all_or_nothing' });
    cell.claim(0, 10, 1);
    const { accepted, refused } = commit(cell, second, { conflict, transaction: 'all_or_nothing' });
    assert.deepEqual([accepted.length, refused.length], [0, 2]);
    assert.deepEqual([...cell.cpuFree], [0, 2]);
    assert.deepEqual([...cell.memoryFree], [0, 20]);
    assert.deepEqual([...cell.sequence], [2, 1]);
  }
});

test('several claims of one plan on a host follow each other', () => {
  const cell = new Columns(1);
  cell.reset(0, 30, 3);
  const copy = new Columns(1);
  copy.copyFrom(cell);
  const claims = [claimIn(copy, 0, 10, 1), claimIn(copy, 0, 10, 1, 2)];
  const { refused } = commit(cell, claims, { conflict: 'sequence_numbers', transaction: 'all_or_nothing' });
  assert.equal(refused.length, 0);
  assert.equal(cell.cpuFree[0], 0);
});
