/** Which host should become, or stop being, a member of the etcd cluster next? */
import type { EtcdPeer } from '@flynn/store/etcd-membership';
import type { Lease } from '../network/lease.ts';
import { peerUrlOf } from './etcd-resident.ts';

export type MembershipStep =
  | { type: 'add'; host: Lease }
  | { type: 'promote'; peer: EtcdPeer; host: Lease }
  | { type: 'move'; peer: EtcdPeer; host: Lease }
  | { type: 'remove'; peer: EtcdPeer };

/**
 * A majority of two is both: less than one alone. So there is one member, and from three hosts on three. `hosts`: those that are
 * not behind NAT.
 */
export function wantedMembers(hosts: number): number {
  return hosts >= 3 ? 3 : 1;
}

/** By its name; one that was never started has none yet. Addresses pass on to other hosts, and do not tell. */
export function hostOfPeer(peer: EtcdPeer, leases: readonly Lease[]): Lease | undefined {
  if (peer.name !== '') return leases.find(({ hostId }) => peer.name === hostId);
  return leases.find(({ address }) => peer.peerUrls.includes(peerUrlOf(address)));
}

/**
 * One step at a time, each safe in itself: a learner has no vote until it has everything, and the next is added only
 * then.
 */
export function nextMembershipStep(input: {
  peers: readonly EtcdPeer[];
  leases: readonly Lease[];
  /** Hosts whose agents are there. */
  present: ReadonlySet<string>;
  /** Hosts that no longer have the data of their member: it may not come back as the same. */
  lost: ReadonlySet<string>;
  /** How often a host's learner did not catch up in time: others come first. */
  failures: ReadonlyMap<string, number>;
  /** Ids of learners whose time is up. */
  overdue: ReadonlySet<string>;
  /** How often etcd refused to let a peer go, by its id: it keeps one that it needs for its majority, while others may go. */
  refusals: ReadonlyMap<string, number>;
  /** Not when leases cannot be read: then a peer whose host is not known is no stranger, and there are more hosts than it seems. */
  isComplete: boolean;
}): MembershipStep | undefined {
  const { peers, leases, present, lost, failures, overdue, refusals, isComplete } = input;
  const voters = peers.filter(({ isLearner }) => !isLearner);
  const strangers = peers.filter((peer) => {
    const host = hostOfPeer(peer, leases);
    return host === undefined ? isComplete : lost.has(host.hostId);
  });
  // Never the last one, whatever the leases say: another has everything before it goes.
  const [stranger] = strangers
    .filter(({ isLearner }) => isLearner || voters.length > 1)
    .toSorted((a, b) => (refusals.get(a.id) ?? 0) - (refusals.get(b.id) ?? 0));
  if (stranger !== undefined) return { type: 'remove', peer: stranger };
  for (const peer of peers) {
    const host = hostOfPeer(peer, leases);
    if (host !== undefined && !peer.peerUrls.includes(peerUrlOf(host.address))) return { type: 'move', peer, host };
  }
  const learner = peers.find(({ isLearner }) => isLearner);
  const its = learner === undefined ? undefined : hostOfPeer(learner, leases);
  if (learner !== undefined && its !== undefined) {
    const isHopeful = present.has(its.hostId) && !overdue.has(learner.id);
    return isHopeful ? { type: 'promote', peer: learner, host: its } : { type: 'remove', peer: learner };
  }
  // There is room for one at a time.
  if (learner !== undefined && !isComplete) return undefined;
  // Members have to reach each other without the tunnel, which ends where one of them does.
  const reachable = leases.filter(({ site }) => site === undefined);
  const wanted = wantedMembers(reachable.length);
  if (voters.length > wanted) {
    if (!isComplete) return undefined;
    const joinedAt = (peer: EtcdPeer): number => hostOfPeer(peer, leases)?.joinedAt ?? 0;
    const [youngest] = voters.toSorted((a, b) => joinedAt(b) - joinedAt(a));
    return youngest === undefined ? undefined : { type: 'remove', peer: youngest };
  }
  const members = new Set(peers.map((peer) => hostOfPeer(peer, leases)?.hostId));
  const candidates = reachable
    .filter(({ hostId }) => present.has(hostId) && !members.has(hostId))
    .toSorted(
      (a, b) =>
        (failures.get(a.hostId) ?? 0) - (failures.get(b.hostId) ?? 0) ||
        a.joinedAt - b.joinedAt ||
        (a.hostId < b.hostId ? -1 : 1),
    );
  const [first] = candidates;
  if (first === undefined) return undefined;
  // What is left of them is the last one.
  if (strangers.length > 0) return { type: 'add', host: first };
  // A host that asked to join and never came must not lead to a majority of two.
  if (voters.length === wanted || voters.length + candidates.length < wanted) return undefined;
  return { type: 'add', host: first };
}
