/** Changes who is a member of etcd, one step after the other: one agent at a time does, whichever came first. */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { EtcdClient } from '@flynn/store/etcd';
import type { EtcdMembership, EtcdPeer } from '@flynn/store/etcd-membership';
import type { Mirror } from '@flynn/store/mirror';
import { z } from 'zod';
import type { Lease } from '../network/lease.ts';
import { peerUrlOf } from './etcd-resident.ts';
import { etcdImageKey, memberKey } from './member-keys.ts';
import type { Member } from './member-keys.ts';
import { hostOfPeer, nextMembershipStep } from './members.ts';
import type { MembershipStep } from './members.ts';

const leaderKey = '/flynn/cluster/leader';
/** Of a removal that is refused again and again: about once a minute. */
const toldEach = 30;

export type Pace = Readonly<{
  leaderTtlSeconds: number;
  /** Between two changes. */
  stepMs: number;
  /** Until it is looked again while nothing is to be done. */
  idleMs: number;
  /** A learner that has not caught up by then makes room for another host's. */
  catchUpMs: number;
}>;

/** A store of 2 GiB reaches a learner in minutes. */
export const usualPace: Pace = { leaderTtlSeconds: 10, stepMs: 2_000, idleMs: 10_000, catchUpMs: 10 * 60_000 };

export type LeaderDeps = {
  hostId: string;
  store: Pick<EtcdClient, 'get' | 'grantLease' | 'transact'>;
  openMembership: () => EtcdMembership;
  members: Mirror<Member>;
  leases: Mirror<Lease>;
  hosts: Mirror<boolean>;
  pace: Pace;
  log: Logger;
};

/** Leads for as long as its lease lasts; else looks again later. */
export async function lead(deps: LeaderDeps, signal: AbortSignal): Promise<void> {
  const { store, hostId, pace, log } = deps;
  const leader = await store.get(leaderKey, { signal });
  if (leader !== undefined) return await systemClock.sleep(pace.idleMs, { signal });
  await using lease = await store.grantLease({ ttlSeconds: pace.leaderTtlSeconds, signal });
  const taken = await store.transact(
    {
      compare: [{ key: leaderKey, createRevision: 0 }],
      then: [{ put: leaderKey, value: JSON.stringify({ hostId }), lease: lease.id }],
    },
    { signal },
  );
  if (!taken.succeeded) return await systemClock.sleep(pace.idleMs, { signal });
  const leading = AbortSignal.any([signal, lease.lost]);
  await using membership = deps.openMembership();
  const leadership = new Leadership(deps, membership, taken.revision, leading);
  try {
    for (;;) {
      const changed = await leadership.step().catch((error: unknown) => {
        // What is not ready yet, or has no majority at the moment, is tried again.
        if (!hasCode(error, 'invalid', 'unavailable', 'timeout')) throw error;
        log.debug({ err: error }, `the members of etcd stay as they are for now: ${messageOf(error)}`);
        return true;
      });
      await systemClock.sleep(changed ? pace.stepMs : pace.idleMs, { signal: leading });
    }
  } catch (error) {
    if (!lease.lost.aborted || signal.aborted) throw error;
    log.info('another host changes the members of etcd from now on');
  }
}

/** INVARIANT: every write compares that this host still leads; what etcd itself changes is safe whoever asks. */
class Leadership {
  readonly #deps: LeaderDeps;
  readonly #membership: EtcdMembership;
  readonly #revision: number;
  readonly #signal: AbortSignal;
  /** When each learner was seen first, by its id. */
  readonly #learners = new Map<string, number>();
  readonly #failures = new Map<string, number>();
  /** By the id of a peer that etcd did not let go. */
  readonly #refusals = new Map<string, number>();

  constructor(deps: LeaderDeps, membership: EtcdMembership, revision: number, signal: AbortSignal) {
    this.#deps = deps;
    this.#membership = membership;
    this.#revision = revision;
    this.#signal = signal;
  }

  /** Whether there was something to do. */
  async step(): Promise<boolean> {
    const { leases: mirror, hosts, members } = this.#deps;
    const peers = await this.#membership.list();
    this.#signal.throwIfAborted();
    const leases = [...mirror.snapshot.entries.values()].map(({ value }) => value);
    await this.#writeVoters(peers, leases);
    const next = nextMembershipStep({
      peers,
      leases,
      present: new Set(hosts.snapshot.entries.keys()),
      lost: new Set([...members.snapshot.entries].filter(([, { value }]) => value.state === 'lost').map(([id]) => id)),
      failures: this.#failures,
      overdue: this.#overdue(peers),
      refusals: this.#refusals,
      isComplete: mirror.unreadable.size === 0,
    });
    if (next === undefined) return false;
    await this.#carryOut(next, peers, leases);
    return true;
  }

  #overdue(peers: readonly EtcdPeer[]): Set<string> {
    const now = performance.now();
    const ids = peers.filter(({ isLearner }) => isLearner).map(({ id }) => id);
    for (const id of this.#learners.keys()) if (!ids.includes(id)) this.#learners.delete(id);
    return new Set(
      ids.filter((id) => {
        const since = this.#learners.get(id) ?? now;
        this.#learners.set(id, since);
        return now - since > this.#deps.pace.catchUpMs;
      }),
    );
  }

  async #write(hostId: string, member: Member | undefined): Promise<void> {
    const key = memberKey(hostId);
    const { succeeded, revision } = await this.#deps.store.transact(
      {
        compare: [{ key: leaderKey, createRevision: this.#revision }],
        then: [member === undefined ? { delete: key } : { put: key, value: JSON.stringify(member) }],
      },
      { signal: this.#signal },
    );
    if (!succeeded) throw new FlynnError('unavailable', 'another host changes the members of etcd by now');
    await this.#deps.members.reached(revision, { signal: this.#signal });
  }

  /** The keys say what etcd says: whoever changed it, and whatever a leader before could not write any more. */
  async #writeVoters(peers: readonly EtcdPeer[], leases: readonly Lease[]): Promise<void> {
    const { leases: mirror, members } = this.#deps;
    const { snapshot, unreadable } = members;
    const { entries } = snapshot;
    for (const peer of peers.filter(({ isLearner }) => !isLearner)) {
      const host = hostOfPeer(peer, leases);
      // Its host may have said there that it has nothing of it.
      if (host === undefined || unreadable.has(host.hostId)) continue;
      const entry = entries.get(host.hostId)?.value;
      if (entry?.state === 'lost' || (entry?.state === 'voter' && entry.address === host.address)) continue;
      await this.#write(host.hostId, { ...entry, address: host.address, state: 'voter' });
    }
    for (const hostId of entries.keys()) {
      // Its peer may have no name yet, and only its lease says where it is.
      if (mirror.unreadable.has(hostId)) continue;
      // One whose host left the cluster is run until etcd does without it: it may be needed for the majority, or have all there is.
      const isPeer = peers.some((peer) => peer.name === hostId || hostOfPeer(peer, leases)?.hostId === hostId);
      if (!isPeer) await this.#write(hostId, undefined);
    }
  }

  async #carryOut(next: MembershipStep, peers: readonly EtcdPeer[], leases: readonly Lease[]): Promise<void> {
    const { log, members } = this.#deps;
    switch (next.type) {
      case 'add': {
        const { hostId, address } = next.host;
        // Before anything is changed: a member without an image would never run.
        const image = await this.#image();
        log.info({ hostId }, `${hostId} is to become a member of etcd`);
        const all = await this.#membership.addLearner(peerUrlOf(address));
        const initialCluster = all
          .flatMap(({ name, peerUrls }) => peerUrls.map((url) => `${name === '' ? hostId : name}=${url}`))
          .join(',');
        const memberId = all.find(({ id }) => !peers.some((peer) => peer.id === id))?.id;
        if (memberId === undefined) throw new FlynnError('unavailable', `etcd does not list the member of ${hostId}`);
        return await this.#write(hostId, { address, image, state: 'joining', initialCluster, memberId });
      }
      case 'promote': {
        const { hostId } = next.host;
        // Added by a leader that ended before it could tell the host.
        const known = members.snapshot.entries.get(hostId)?.value;
        if (known?.memberId !== next.peer.id) return await this.#membership.remove(next.peer.id);
        await this.#membership.promote(next.peer.id);
        log.info({ hostId }, `${hostId} is a member of etcd`);
        return undefined;
      }
      case 'move':
        log.info(
          { hostId: next.host.hostId },
          `the member of etcd on ${next.host.hostId} is at ${next.host.address} now`,
        );
        return await this.#membership.move(next.peer.id, peerUrlOf(next.host.address));
      case 'remove': {
        const hostId = hostOfPeer(next.peer, leases)?.hostId ?? next.peer.name;
        await this.#remove(hostId, next.peer.id);
        if (next.peer.isLearner) this.#failures.set(hostId, (this.#failures.get(hostId) ?? 0) + 1);
        log.warn({ hostId, member: next.peer.id }, `${hostId} is no member of etcd any more`);
        return undefined;
      }
      default:
        return next satisfies never;
    }
  }

  async #remove(hostId: string, id: string): Promise<void> {
    try {
      await this.#membership.remove(id);
    } catch (error) {
      const refused = this.#refusals.get(id) ?? 0;
      this.#refusals.set(id, refused + 1);
      if (refused % toldEach === 0) {
        this.#deps.log.warn(
          { hostId, member: id },
          `${hostId} is to be no member of etcd any more, which etcd refuses while it is needed for the majority: leave its member running until it is none (${messageOf(error)})`,
        );
      }
      throw error;
    }
  }

  async #image(): Promise<string> {
    const entry = await this.#deps.store.get(etcdImageKey, { signal: this.#signal });
    if (entry !== undefined) return z.string().min(1).parse(JSON.parse(entry.value));
    throw new FlynnError(
      'unavailable',
      `which image etcd runs from is not known yet: ${eitherCommand('up')} on the host that keeps the platform tells`,
    );
  }
}
