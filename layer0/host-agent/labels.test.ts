import assert from 'node:assert/strict';
import { test } from 'node:test';
import { jobOf } from './host-fixture.ts';
import { isSingleton } from './labels.ts';

test('a job that writes a volume alone is never there twice; one that shares it may be', () => {
  const own = { name: 'data', path: '/data' };
  const shared = { name: 'table', path: '/table', isShared: true };
  assert.equal(isSingleton(jobOf('a')), false);
  assert.equal(isSingleton(jobOf('a', {}, { singleton: true })), true);
  assert.equal(isSingleton(jobOf('a', { volumes: [own] })), true);
  // A host that is cut off keeps its router: its clients still reach it.
  assert.equal(isSingleton(jobOf('a', { volumes: [shared] })), false);
  assert.equal(isSingleton(jobOf('a', { volumes: [shared, own] })), true);
});
