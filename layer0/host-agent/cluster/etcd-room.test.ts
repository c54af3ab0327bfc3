import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import type { EtcdStatus } from '@flynn/store/etcd-status';
import { isFullHere, keepRoom } from './etcd-room.ts';
import type { EtcdRoom } from './etcd-room.ts';

function statusOf(options: { isFull?: boolean; leaderId?: string; isAway?: boolean } = {}): EtcdStatus {
  const { isFull = true, leaderId = 'own', isAway = false } = options;
  const answer = {
    id: 'own',
    version: '3.5.16',
    sizeBytes: 1_000,
    usedBytes: 900,
    leaderId,
    raftIndex: 1,
    isLearner: false,
    tookMs: 1,
  };
  return {
    members: [isAway ? { endpoint: 'own', error: 'it did not answer' } : { endpoint: 'own', answer }],
    alarms: isFull ? [{ memberId: 'another', kind: 'nospace' }] : [],
  };
}

const cases: [string, EtcdStatus, boolean][] = [
  ['a member is full', statusOf(), true],
  ['there is room', statusOf({ isFull: false }), false],
  ['one is full, but another host has the leader', statusOf({ leaderId: 'another' }), false],
  ['the own member does not answer', statusOf({ isAway: true }), false],
  ['there is no own member', { members: [], alarms: [] }, false],
  ['data differs, which only a person mends', { ...statusOf(), alarms: [{ memberId: 'own', kind: 'corrupt' }] }, false],
];

for (const [name, status, isDue] of cases) {
  test(`${name}: ${isDue ? 'room is made' : 'nothing is done'}`, () => assert.equal(isFullHere(status), isDue));
}

test('room is made as soon as it is missing, and again no sooner than ten minutes later', async () => {
  const done: string[] = [];
  let isFull = false;
  const room: EtcdRoom = {
    status: async () => statusOf({ isFull }),
    compact: async () => void done.push('compact'),
    defragment: async () => void done.push('defragment'),
  };
  const stop = new AbortController();
  let sleeps = 0;
  const sleep = async (ms: number): Promise<void> => {
    done.push(`${ms / 1_000} s`);
    sleeps += 1;
    isFull = true;
    if (sleeps === 3) stop.abort();
  };
  await keepRoom(room, { log: silentLogger(), signal: stop.signal, clock: { sleep } });
  assert.deepEqual(done, ['30 s', 'compact', 'defragment', '600 s', 'compact', 'defragment', '600 s']);
});
