import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { SeenStatus } from '@flynn/scheduler/lost-jobs';
import { placedOf, statusOf, workloadOf } from '@flynn/scheduler/testing';
import { leavingOf } from './switchover.ts';

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
