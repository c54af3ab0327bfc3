import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import type { EtcdStatus } from '@flynn/store/etcd-status';
import { keepRoom, needOf } from './etcd-room.ts';
import type { EtcdRoom } from './etcd-room.ts';

const quotaBytes = 10_000;

type StatusOptions = {
  isFull?: boolean;
  leaderId?: string;
  isAway?: boolean;
  sizeBytes?: number;
  usedBytes?: number;
  /** Of another member's file. */
  otherBytes?: number;
};

function statusOf(options: StatusOptions = {}): EtcdStatus {
  const { isFull = true, leaderId = 'own', isAway = false, sizeBytes = 1_000, usedBytes = 900, otherBytes } = options;
  const answer = {
    id: 'own',
    storeId: 's',
    version: '3.5.16',
    sizeBytes,
    usedBytes,
    leaderId,
    raftIndex: 1,
    isLearner: false,
    tookMs: 1,
  };
  return {
    members: [
      isAway ? { endpoint: 'own', error: 'it did not answer' } : { endpoint: 'own', answer },
      ...(otherBytes === undefined
        ? []
        : [{ endpoint: 'other', answer: { ...answer, id: 'other', sizeBytes: otherBytes } }]),
      { endpoint: 'another', error: 'it did not answer' },
    ],
    alarms: isFull ? [{ memberId: 'another', kind: 'nospace' }] : [],
  };
}

const nearly = { isFull: false, sizeBytes: 8_000 };

const cases: [string, EtcdStatus, 'full' | 'near' | undefined][] = [
  ['a member is full', statusOf(), 'full'],
  ['there is room', statusOf({ isFull: false, sizeBytes: 7_999 }), undefined],
  ['four fifths of the quota are taken', statusOf(nearly), 'near'],
  ['another member has taken so much', statusOf({ isFull: false, otherBytes: 8_000 }), 'near'],
  ['another member has less', statusOf({ isFull: false, otherBytes: 7_999 }), undefined],
  ['so much is taken, and another host has the leader', statusOf({ ...nearly, leaderId: 'another' }), undefined],
  ['one is full, but another host has the leader', statusOf({ leaderId: 'another' }), undefined],
  ['the own member does not answer', statusOf({ isAway: true }), undefined],
  ['there is no own member', { members: [], alarms: [] }, undefined],
  [
    'data differs, which only a person mends',
    { ...statusOf(), alarms: [{ memberId: 'own', kind: 'corrupt' }] },
    undefined,
  ],
];

for (const [name, status, need] of cases) {
  test(`${name}: ${need === undefined ? 'nothing is done' : 'room is made'}`, () =>
    assert.equal(needOf(status, quotaBytes), need));
}

/** What is done, and how long is waited after it, until it was waited so often. The revision is how much was done by then. */
async function kept(
  status: (done: readonly string[]) => EtcdStatus,
  sleeps: number,
  { hosts = 3 } = {},
): Promise<string[]> {
  const done: string[] = [];
  const room: EtcdRoom = {
    status: async () => status(done),
    quotaBytes: async () => quotaBytes,
    hosts: async () => hosts,
    revision: async () => done.length,
    compact: async (revision) => void done.push(`compact ${revision}`),
    defragment: async () => {
      done.push('defragment');
      return { failures: [] };
    },
  };
  const stop = new AbortController();
  const sleep = async (ms: number): Promise<void> => {
    done.push(`${ms / 1_000} s`);
    if (done.filter((one) => one.endsWith(' s')).length === sleeps) stop.abort();
  };
  await keepRoom(room, { log: silentLogger(), signal: stop.signal, clock: { sleep } });
  return done;
}

test('room is made as soon as it is missing, and again no sooner than ten minutes later', async () => {
  const isFull = (done: readonly string[]) => done.length > 0 && done.at(-1) !== 'defragment';
  assert.deepEqual(await kept((done) => statusOf({ isFull: isFull(done) }), 5), [
    '30 s',
    '5 s',
    'compact 1',
    'defragment',
    '600 s',
    '5 s',
    'compact 5',
    'defragment',
    '600 s',
  ]);
});

test('what is still nearly full when room was given back was given back before all history was gone: it is once more', async () => {
  const late = (done: readonly string[]): EtcdStatus =>
    done.at(-1) === 'defragment' ? statusOf(nearly) : statusOf({ isFull: !done.includes('defragment') });
  assert.deepEqual(await kept(late, 3), ['5 s', 'compact 0', 'defragment', '20 s', 'defragment', '600 s']);
});

test('before all of it is taken history of before a moment ago goes, and its room if that is worth it', async () => {
  const history = (done: readonly string[]): EtcdStatus =>
    statusOf({ ...nearly, usedBytes: done.includes('compact 0') ? 6_400 : 8_000 });
  assert.deepEqual(await kept(history, 3), ['5 s', 'compact 0', '20 s', 'defragment', '30 s']);
  assert.deepEqual(await kept(() => statusOf({ ...nearly, usedBytes: 6_401 }), 3), [
    '5 s',
    'compact 0',
    '20 s',
    '30 s',
  ]);
});

test('with but one member and other hosts its room stays inside until it is full: all would lose their leases', async () => {
  const history = (done: readonly string[]): EtcdStatus => {
    const { members, alarms } = statusOf({ ...nearly, usedBytes: done.includes('compact 0') ? 6_400 : 8_000 });
    return { members: members.slice(0, 1), alarms };
  };
  const once = ['5 s', 'compact 0', '20 s'];
  const rests = Array.from({ length: 47 }, () => '30 s');
  assert.deepEqual(
    await kept(history, 49, { hosts: 2 }),
    [...once, ...rests],
    'nor does its history go again and again',
  );
  assert.ok((await kept(history, 3, { hosts: 1 })).includes('defragment'));
  const full = (done: readonly string[]): EtcdStatus => statusOf({ isFull: !done.includes('defragment') });
  assert.ok((await kept(full, 2, { hosts: 2 })).includes('defragment'));
});

test('what stays nearly full is tried again after ten minutes, and at once when it is full', async () => {
  const done = await kept(() => statusOf({ ...nearly, usedBytes: 8_000 }), 24);
  assert.deepEqual(done.slice(0, 2), ['5 s', 'compact 0']);
  assert.deepEqual(done.slice(2, 23), ['20 s', ...Array.from({ length: 20 }, () => '30 s')]);
  assert.deepEqual(done.slice(23), ['5 s', 'compact 23', '20 s']);
  const then = (before: readonly string[]): EtcdStatus =>
    before.includes('30 s')
      ? statusOf({ isFull: before.at(-1) !== 'defragment' })
      : statusOf({ ...nearly, usedBytes: 8_000 });
  const again = ['5 s', 'compact 4', 'defragment', '600 s'];
  assert.deepEqual(await kept(then, 5), ['5 s', 'compact 0', '20 s', '30 s', ...again]);
});
