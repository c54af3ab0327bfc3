import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Rival } from './own-runs.ts';
import { Rivals, certainMs } from './rivals.ts';

const rival = (lease: string): Rival => ({
  lease,
  record: {
    id: 'h1',
    address: '10.0.0.9',
    apiPort: 1113,
    capacity: { memoryBytes: 1, cpuMillis: 1 },
    attributes: {},
    cordoned: false,
    startedAt: 1,
  },
});

test('what an agent of this host left is no other machine; who holds the record for longer is one, until it is gone', () => {
  const rivals = new Rivals();
  assert.equal(rivals.known(0), undefined);
  for (let atMs = 0; atMs < certainMs; atMs += 1_000) {
    rivals.met(rival('a'), false, atMs);
    assert.equal(rivals.known(atMs), undefined);
  }
  rivals.met(rival('a'), false, certainMs);
  assert.deepEqual(rivals.known(certainMs), { address: '10.0.0.9', isTakenBack: false });
  assert.equal(rivals.known(certainMs + 60_000), undefined);
  rivals.met(rival('b'), false, certainMs + 1_000);
  assert.equal(rivals.known(certainMs + 1_000), undefined, 'another lease is looked at anew');
});

test('one that was sent away is told of at once, for an hour', () => {
  const rivals = new Rivals();
  rivals.met(rival('a'), true, 0);
  assert.deepEqual(rivals.known(0), { address: '10.0.0.9', isTakenBack: true });
  assert.notEqual(rivals.known(3_599_000), undefined);
  assert.equal(rivals.known(3_601_000), undefined);
});
