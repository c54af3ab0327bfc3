import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { EtcdPeer } from '@flynn/store/etcd-membership';
import type { Lease } from '../network/lease.ts';
import { peerUrlOf } from './etcd-resident.ts';
import { nextMembershipStep } from './members.ts';

const lease = (index: number): Lease => ({
  hostId: `h${index}`,
  address: `192.0.2.${index}`,
  subnet: `100.100.${index}.0/24`,
  joinedAt: index,
});
const peer = (index: number, more: Partial<EtcdPeer> = {}): EtcdPeer => ({
  id: String(index),
  name: `h${index}`,
  peerUrls: [peerUrlOf(`192.0.2.${index}`)],
  clientUrls: [],
  isLearner: false,
  ...more,
});
const step = (
  peers: EtcdPeer[],
  hosts: number[],
  {
    present = hosts,
    lost = [],
    failed = [],
    overdue = [],
    behindNat = [],
    refused = [],
    isComplete = true,
  }: Partial<Record<'present' | 'lost' | 'failed' | 'overdue' | 'behindNat' | 'refused', number[]>> & {
    isComplete?: boolean;
  } = {},
) => {
  const ids = (indices: number[]) => new Set(indices.map((index) => `h${index}`));
  const next = nextMembershipStep({
    peers,
    leases: hosts.map((index) => ({ ...lease(index), ...(behindNat.includes(index) ? { site: 'home' } : {}) })),
    present: ids(present),
    lost: ids(lost),
    failures: new Map(failed.map((index) => [`h${index}`, 1])),
    overdue: new Set(overdue.map(String)),
    refusals: new Map(refused.map((index) => [String(index), 1])),
    isComplete,
  });
  if (next === undefined) return 'nothing';
  return `${next.type} ${next.type === 'add' ? next.host.hostId : `h${next.peer.id}`}`;
};

test('one host and two have one member; from three on there are three, the oldest, one after the other', () => {
  assert.equal(step([peer(1)], [1]), 'nothing');
  assert.equal(step([peer(1)], [1, 2]), 'nothing');
  assert.equal(step([peer(1)], [1, 2, 3]), 'add h2');
  assert.equal(step([peer(1), peer(2, { isLearner: true })], [1, 2, 3]), 'promote h2');
  assert.equal(step([peer(1), peer(2)], [1, 2, 3, 4]), 'add h3');
  assert.equal(step([peer(1), peer(2), peer(3)], [1, 2, 3, 4]), 'nothing');
});

test('a host behind NAT becomes no member, and makes no three of two', () => {
  assert.equal(step([peer(1)], [1, 2, 3], { behindNat: [2] }), 'nothing');
  assert.equal(step([peer(1)], [1, 2, 3, 4], { behindNat: [2] }), 'add h3');
  assert.equal(step([peer(1), peer(3)], [1, 2, 3, 4], { behindNat: [2] }), 'add h4');
});

test('where leases cannot be read no member is a stranger or one too many, and all else goes on', () => {
  const unread = { isComplete: false };
  const learner = peer(3, { isLearner: true });
  const all = [peer(1), peer(2), peer(3)];
  assert.equal(step(all, [1, 2]), 'remove h3');
  assert.equal(step(all, [1, 2], unread), 'nothing');
  assert.equal(step([peer(1), peer(2), learner], [1, 3], unread), 'promote h3');
  assert.equal(step([peer(1), peer(2), learner], [1, 3], { ...unread, present: [1] }), 'remove h3');
  assert.equal(step([peer(1), peer(2, { peerUrls: [peerUrlOf('192.0.2.9')] })], [1, 2], unread), 'move h2');
  assert.equal(step([peer(1), peer(2), peer(4)], [1, 2, 3], { ...unread, lost: [2] }), 'remove h2');
  assert.equal(step([peer(1), peer(4)], [1, 2, 3], unread), 'add h2');
  assert.equal(step([peer(1), peer(4, { isLearner: true, name: '' })], [1, 2, 3], unread), 'nothing', 'one learner');
});

test('a learner that was not started yet has no name: its address tells whose it is', () => {
  assert.equal(step([peer(1), peer(2, { isLearner: true, name: '' })], [1, 2, 3]), 'promote h2');
});

test('hosts that are away are not added, and a learner that went away makes room for another', () => {
  assert.equal(step([peer(1)], [1, 2, 3, 4], { present: [1, 3, 4] }), 'add h3');
  assert.equal(step([peer(1), peer(2, { isLearner: true })], [1, 2, 3, 4], { present: [1, 3, 4] }), 'remove h2');
});

test('a member whose host left the cluster goes, and another takes its place; the last one never goes', () => {
  assert.equal(step([peer(1), peer(2), peer(3)], [1, 3, 4]), 'remove h2');
  assert.equal(step([peer(1), peer(3)], [1, 3, 4]), 'add h4');
  assert.equal(step([peer(1), peer(3)], [1, 3]), 'remove h3');
  assert.equal(step([peer(1)], []), 'nothing');
  assert.equal(step([peer(1), peer(2), peer(3)], [1, 2, 3], { present: [1] }), 'nothing');
});

test('the only member whose host leaves has everything: another host has it all before that one goes', () => {
  assert.equal(step([peer(1)], [2]), 'add h2');
  assert.equal(step([peer(1), peer(2, { isLearner: true })], [2]), 'promote h2');
  assert.equal(step([peer(1), peer(2)], [2]), 'remove h1');
  assert.equal(step([peer(2)], [2]), 'nothing');
  assert.equal(step([peer(1)], [2, 3, 4], { present: [3] }), 'add h3');
  assert.equal(step([peer(1)], [2], { present: [] }), 'nothing');
  assert.equal(step([peer(1)], [1, 2], { lost: [1] }), 'add h2');
});

test('what a host that left learns makes room for another, whoever else is to go', () => {
  assert.equal(step([peer(1), peer(9, { isLearner: true })], [2]), 'remove h9');
});

test('two voters are never made where a third cannot follow', () => {
  assert.equal(step([peer(1)], [1, 2, 3], { present: [1, 2] }), 'nothing');
  assert.equal(step([peer(1), peer(2)], [1, 2, 3], { present: [1, 2] }), 'nothing');
});

test('a host that lost its data becomes a member anew, and only where others have it', () => {
  assert.equal(step([peer(1), peer(2), peer(3)], [1, 2, 3], { lost: [2] }), 'remove h2');
  assert.equal(step([peer(1), peer(3)], [1, 2, 3]), 'add h2');
  assert.equal(step([peer(1)], [1], { lost: [1] }), 'nothing');
});

test('one that etcd does not let go keeps no other from going', () => {
  assert.equal(step([peer(1), peer(2), peer(3)], [2, 4, 5]), 'remove h1');
  assert.equal(step([peer(1), peer(2), peer(3)], [2, 4, 5], { refused: [1] }), 'remove h3');
  assert.equal(step([peer(1), peer(2), peer(3)], [2, 4, 5], { refused: [1, 3] }), 'remove h1', 'each in its turn');
});

test('a learner that does not catch up makes room, and its host comes last from then on', () => {
  const learner = peer(2, { isLearner: true });
  assert.equal(step([peer(1), learner], [1, 2, 3, 4], { overdue: [2] }), 'remove h2');
  assert.equal(step([peer(1)], [1, 2, 3, 4], { failed: [2] }), 'add h3');
});

test('a member follows its host to another address, and is not taken for that of the host that is there now', () => {
  const moved = peer(2, { peerUrls: [peerUrlOf('192.0.2.77')] });
  assert.equal(step([peer(1), moved, peer(3)], [1, 2, 3]), 'move h2');
  const gone = peer(9, { peerUrls: [peerUrlOf('192.0.2.2')] });
  assert.equal(step([peer(1), gone, peer(3)], [1, 2, 3]), 'remove h9');
});
