import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { placedOf, statusOf, workloadOf } from '@flynn/scheduler/testing';
import { leavingOf, preferring } from './switchover.ts';

const member = (hostId: string, more: Partial<SeenStatus> = {}): SeenStatus => ({
  ...statusOf(placedOf(workloadOf(), hostId, { hostId }), 'running'),
  isUncertain: false,
  ...more,
});
const primary = (hostId: string, more: Partial<SeenStatus> = {}) => member(hostId, { goesLast: true, ...more });
const drain =
  (...hosts: string[]) =>
  (hostId: string) =>
    hosts.includes(hostId);

test('a primary leaves a host that drains, for whichever other its members take', () => {
  assert.deepEqual(leavingOf([primary('h1'), member('h2'), member('h3')], drain('h1')), { from: 'h1' });
  assert.equal(leavingOf([primary('h1'), member('h2')], drain('h2')), undefined);
  assert.equal(leavingOf([primary('h1'), member('h2')], drain()), undefined);
});

test('it goes to none whose host drains as well, nor to one that is not up, and stays where there is no other', () => {
  assert.deepEqual(leavingOf([primary('h1'), member('h2'), member('h3')], drain('h1', 'h2')), { from: 'h1', to: 'h3' });
  assert.equal(leavingOf([primary('h1'), member('h2')], drain('h1', 'h2')), undefined);
  assert.equal(leavingOf([primary('h1'), member('h2', { state: 'starting' })], drain('h1')), undefined);
  assert.equal(leavingOf([primary('h1'), member('h2', { isUncertain: true })], drain('h1')), undefined);
  assert.equal(leavingOf([primary('h1', { isUncertain: true }), member('h2')], drain('h1')), undefined);
  assert.equal(leavingOf([primary('h1')], drain('h1')), undefined);
});

test('where the one that is wanted is refused it goes to whichever its members take, once', async () => {
  const asked: (string | undefined)[] = [];
  const refusing =
    (code: 'conflict' | 'unavailable', ...refused: (string | undefined)[]) =>
    async (to?: string) => {
      asked.push(to);
      if (refused.includes(to)) throw new FlynnError(code, 'Patroni refuses: candidate is not synchronous');
      return to ?? 'h2';
    };
  assert.equal(await preferring('h3', refusing('conflict')), 'h3');
  assert.equal(await preferring('h3', refusing('conflict', 'h3')), 'h2');
  assert.deepEqual(asked.splice(0), ['h3', 'h3', undefined]);
  const isConflict = (error: unknown) => hasCode(error, 'conflict');
  await assert.rejects(preferring('h3', refusing('conflict', 'h3', undefined)), isConflict);
  await assert.rejects(preferring(undefined, refusing('conflict', undefined)), isConflict);
  assert.deepEqual(asked.splice(0), ['h3', undefined, undefined]);
  await assert.rejects(preferring('h3', refusing('unavailable', 'h3')), (error) => hasCode(error, 'unavailable'));
  assert.deepEqual(asked, ['h3'], 'one that may go on by itself is not asked for another');
});
