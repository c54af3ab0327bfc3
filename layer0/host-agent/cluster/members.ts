/** Which host should become, or stop being, a member of the etcd cluster next? */
import type { EtcdPeer } from '@flynn/store/etcd-membership';
import type { Lease } from '../network/lease.ts';
import { peerUrlOf } from './etcd-resident.ts';

export type MembershipStep =
  | { type: 'add'; host: Lease }
  | { type: 'promote'; peer: EtcdPeer; host: Lease }
  | { type: 'remove'; peer: EtcdPeer };

/** A majority of two is both: less than one alone. So there is one member, and from three hosts on three. */
function wantedMembers(hosts: number): number {
  return hosts >= 3 ? 3 : 1;
}

export function hostOfPeer(peer: EtcdPeer, leases: readonly Lease[]): Lease | undefined {
  return leases.find(({ hostId, address }) => peer.name === hostId || peer.peerUrls.includes(peerUrlOf(address)));
}

/**
 * One step at a time, each safe in itself: a learner has no vote until it has everything, and the next is added only
 * then. `present`: hosts whose agents are there.
 */
export function nextMembershipStep(input: {
  peers: readonly EtcdPeer[];
  leases: readonly Lease[];
  present: ReadonlySet<string>;
}): MembershipStep | undefined {
  const { peers, leases, present } = input;
  const voters = peers.filter(({ isLearner }) => !isLearner);
  const stranger = peers.find((peer) => hostOfPeer(peer, leases) === undefined);
  // Never the last one, whatever the leases say.
  if (stranger !== undefined && (stranger.isLearner || voters.length > 1)) return { type: 'remove', peer: stranger };
  const learner = peers.find(({ isLearner }) => isLearner);
  const its = learner === undefined ? undefined : hostOfPeer(learner, leases);
  if (learner !== undefined && its !== undefined) {
    return present.has(its.hostId) ? { type: 'promote', peer: learner, host: its } : { type: 'remove', peer: learner };
  }
  const wanted = wantedMembers(leases.length);
  if (voters.length > wanted && wanted > 0) {
    const joinedAt = (peer: EtcdPeer): number => hostOfPeer(peer, leases)?.joinedAt ?? 0;
    const [youngest] = voters.toSorted((a, b) => joinedAt(b) - joinedAt(a));
    return youngest === undefined ? undefined : { type: 'remove', peer: youngest };
  }
  if (voters.length === wanted) return undefined;
  const members = new Set(peers.map((peer) => hostOfPeer(peer, leases)?.hostId));
  const [oldest] = leases
    .filter(({ hostId }) => present.has(hostId) && !members.has(hostId))
    .toSorted((a, b) => a.joinedAt - b.joinedAt || (a.hostId < b.hostId ? -1 : 1));
  return oldest === undefined ? undefined : { type: 'add', host: oldest };
}
