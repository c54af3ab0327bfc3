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
const step = (peers: EtcdPeer[], hosts: number[], present = hosts) => {
  const next = nextMembershipStep({
    peers,
    leases: hosts.map(lease),
    present: new Set(present.map((index) => `h${index}`)),
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

test('a learner that was not started yet has no name: its address tells whose it is', () => {
  assert.equal(step([peer(1), peer(2, { isLearner: true, name: '' })], [1, 2, 3]), 'promote h2');
});

test('hosts that are away are not added, and a learner that went away makes room for another', () => {
  assert.equal(step([peer(1)], [1, 2, 3, 4], [1, 3, 4]), 'add h3');
  assert.equal(step([peer(1), peer(2, { isLearner: true })], [1, 2, 3, 4], [1, 3, 4]), 'remove h2');
});

test('a member whose host left the cluster goes, and another takes its place; the last one never goes', () => {
  assert.equal(step([peer(1), peer(2), peer(3)], [1, 3, 4]), 'remove h2');
  assert.equal(step([peer(1), peer(3)], [1, 3, 4]), 'add h4');
  assert.equal(step([peer(1), peer(3)], [1, 3]), 'remove h3');
  assert.equal(step([peer(1)], []), 'nothing');
  assert.equal(step([peer(1), peer(2), peer(3)], [1, 2, 3], [1]), 'nothing');
});
