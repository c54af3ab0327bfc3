/**
 * etcd's members follow the hosts. One agent at a time leads and changes the membership; each agent runs the member that
 * was decided for its host, and every one knows where the members are.
 *
 * A member's key is `/flynn/cluster/members/<host>`; its host's agent turns it into a resident job. Without the key the
 * member and its data go.
 */
import { mkdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import { cellKeys } from '@flynn/scheduler/cell';
import type { EtcdClient } from '@flynn/store/etcd';
import type { EtcdMembership, EtcdPeer } from '@flynn/store/etcd-membership';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror } from '@flynn/store/mirror';
import { z } from 'zod';
import { leasePrefix, leaseSchema } from '../network/lease.ts';
import type { Lease } from '../network/lease.ts';
import { etcdResident, peerUrlOf } from './etcd-resident.ts';
import { followMembers, memberKey, openMembers } from './member-keys.ts';
import type { Member } from './member-keys.ts';
import { hostOfPeer, nextMembershipStep } from './members.ts';
import type { MembershipStep } from './members.ts';

const leaderKey = '/flynn/cluster/leader';

const leaderTtlSeconds = 10;
const stepMs = 2_000;
const idleMs = 10_000;

export const endpointsFile = (stateDir: string): string => join(stateDir, 'etcd-endpoints.json');
export const residentFile = (stateDir: string): string => join(stateDir, 'resident', 'etcd.json');

/** Where etcd was when this host last knew, or is said to be: what an agent begins with after a boot. */
export async function knownEndpoints(stateDir: string, configured: readonly string[]): Promise<string[]> {
  const known = await readJsonFile(endpointsFile(stateDir), z.array(z.string()).min(1));
  return [...new Set([...(known ?? []), ...configured])];
}

export type MembershipOptions = {
  cluster: string;
  hostId: string;
  stateDir: string;
  store: EtcdClient;
  openMembership: () => EtcdMembership;
  /** Takes what earlier members of this host left; `memberId` is the present one's, if it joined. */
  removeOldData: (memberId: string | undefined, signal: AbortSignal) => Promise<void>;
  log: Logger;
};

/** Resolves once the members are known; goes on in the group. */
export async function startMembership(options: MembershipOptions, tasks: TaskGroup): Promise<void> {
  const { store, log } = options;
  const { signal } = tasks;
  const [members, leases, hosts] = await Promise.all([
    openMembers({ store, log, signal }),
    openMirror({ store, prefix: leasePrefix, decode: (json) => leaseSchema.parse(json), log, signal }),
    openMirror({ store, prefix: cellKeys.hosts, decode: () => true, log, signal }),
  ]);
  tasks.run('etcd endpoints', (s) =>
    followMembers(store, members, {
      log,
      signal: s,
      onChange: (endpoints) => writeFileAtomic(endpointsFile(options.stateDir), `${JSON.stringify(endpoints)}\n`),
    }),
  );
  tasks.run('etcd member', (s) =>
    forever('the etcd member of this host', (limit) => followOwn(options, members, limit), { signal: s, log }),
  );
  tasks.run('etcd membership', (s) =>
    forever('the members of etcd', (limit) => lead(options, { members, leases, hosts }, limit), {
      signal: s,
      log,
      minMs: stepMs,
      maxMs: idleMs,
    }),
  );
}

/** Runs the member decided for this host; takes away one that is no longer. */
async function followOwn(options: MembershipOptions, members: Mirror<Member>, signal: AbortSignal): Promise<void> {
  const { hostId, stateDir, cluster, log } = options;
  for await (const { entries } of members.changes({ signal })) {
    const own = entries.get(hostId)?.value;
    const file = residentFile(stateDir);
    const existing = await readJsonFile(file, z.unknown());
    if (own === undefined && existing !== undefined && entries.size > 0) {
      log.warn('this host is no member of etcd any more: its member is taken away');
      await rm(file, { force: true });
    } else if (own?.initialCluster !== undefined && existing === undefined) {
      log.info('this host becomes a member of etcd');
      const { address, image, initialCluster, memberId } = own;
      const joining = memberId === undefined ? { initialCluster } : { initialCluster, memberId };
      const resident = etcdResident({ cluster, hostId, address, image, stateDir, ...joining });
      await mkdir(join(stateDir, 'resident'), { recursive: true, mode: 0o700 });
      await writeFileAtomic(file, `${JSON.stringify(resident, undefined, 2)}\n`);
    }
    await options.removeOldData(own?.memberId, signal);
  }
}

type View = { members: Mirror<Member>; leases: Mirror<Lease>; hosts: Mirror<boolean> };

/** Leads for as long as its lease lasts; else looks again later. */
async function lead(options: MembershipOptions, view: View, signal: AbortSignal): Promise<void> {
  const { store, hostId, log } = options;
  const leader = await store.get(leaderKey, { signal });
  if (leader !== undefined) return await systemClock.sleep(idleMs, { signal });
  await using lease = await store.grantLease({ ttlSeconds: leaderTtlSeconds, signal });
  const taken = await store.transact(
    {
      compare: [{ key: leaderKey, createRevision: 0 }],
      then: [{ put: leaderKey, value: JSON.stringify({ hostId }), lease: lease.id }],
    },
    { signal },
  );
  if (!taken.succeeded) return await systemClock.sleep(idleMs, { signal });
  const leading = AbortSignal.any([signal, lease.lost]);
  await using membership = options.openMembership();
  while (!leading.aborted) {
    const changed = await step(options, view, membership, taken.revision, leading).catch((error: unknown) => {
      // What is not ready yet, or has no majority at the moment, is tried again.
      if (!hasCode(error, 'invalid', 'unavailable', 'timeout')) throw error;
      log.debug({ err: error }, `the members of etcd stay as they are for now: ${messageOf(error)}`);
      return true;
    });
    await systemClock.sleep(changed ? stepMs : idleMs, { signal: leading });
  }
}

type Leading = {
  options: MembershipOptions;
  view: View;
  membership: EtcdMembership;
  /** Every write compares that this host still leads. */
  write: (hostId: string, member: Member | undefined) => Promise<void>;
};

/** Whether there was something to do. */
async function step(
  options: MembershipOptions,
  view: View,
  membership: EtcdMembership,
  leaderRevision: number,
  signal: AbortSignal,
): Promise<boolean> {
  const peers = await membership.list();
  const leases = [...view.leases.snapshot.entries.values()].map(({ value }) => value);
  const write: Leading['write'] = async (hostId, member) => {
    const key = memberKey(hostId);
    const { revision } = await options.store.transact(
      {
        compare: [{ key: leaderKey, createRevision: leaderRevision }],
        then: [member === undefined ? { delete: key } : { put: key, value: JSON.stringify(member) }],
      },
      { signal },
    );
    await view.members.reached(revision, { signal });
  };
  const leading: Leading = { options, view, membership, write };
  await writeVoters(leading, peers, leases);
  const present = new Set(view.hosts.snapshot.entries.keys());
  const next = nextMembershipStep({ peers, leases, present });
  if (next === undefined) return false;
  await carryOut(leading, next);
  return true;
}

/** The keys say what etcd says: whoever changed it, and whatever a leader before could not write any more. */
async function writeVoters(
  { options, view, write }: Leading,
  peers: readonly EtcdPeer[],
  leases: readonly Lease[],
): Promise<void> {
  const { entries } = view.members.snapshot;
  const image = await imageOf(options, view.members);
  for (const peer of peers.filter(({ isLearner }) => !isLearner)) {
    const host = hostOfPeer(peer, leases);
    if (host === undefined) continue;
    const entry = entries.get(host.hostId)?.value;
    if (entry?.state === 'voter' && entry.address === host.address) continue;
    await write(host.hostId, { ...entry, address: host.address, image: entry?.image ?? image, state: 'voter' });
  }
  for (const hostId of entries.keys()) {
    if (!peers.some((peer) => hostOfPeer(peer, leases)?.hostId === hostId)) await write(hostId, undefined);
  }
}

async function carryOut({ options, view, membership, write }: Leading, next: MembershipStep): Promise<void> {
  const { log } = options;
  switch (next.type) {
    case 'add': {
      const { hostId, address } = next.host;
      log.info({ hostId }, `${hostId} is to become a member of etcd`);
      const all = await membership.addLearner(peerUrlOf(address));
      const initialCluster = all
        .flatMap(({ name, peerUrls }) => peerUrls.map((url) => `${name === '' ? hostId : name}=${url}`))
        .join(',');
      const memberId = all.find(({ peerUrls }) => peerUrls.includes(peerUrlOf(address)))?.id ?? '';
      const image = await imageOf(options, view.members);
      return await write(hostId, { address, image, state: 'joining', initialCluster, memberId });
    }
    case 'promote': {
      const { hostId } = next.host;
      // Added by a leader that ended before it could tell the host.
      if (!view.members.snapshot.entries.has(hostId)) return await membership.remove(next.peer.id);
      await membership.promote(next.peer.id);
      log.info({ hostId }, `${hostId} is a member of etcd`);
      return undefined;
    }
    case 'remove':
      log.warn({ member: next.peer.name }, `${next.peer.name} is no member of etcd any more`);
      return await membership.remove(next.peer.id);
    default:
      return next satisfies never;
  }
}

async function imageOf({ stateDir }: MembershipOptions, members: Mirror<Member>): Promise<string> {
  const [known] = members.snapshot.entries.values();
  if (known !== undefined) return known.value.image;
  const schema = z.object({ template: z.object({ image: z.object({ name: z.string() }) }) });
  const own = await readJsonFile(residentFile(stateDir), schema);
  return own?.template.image.name ?? '';
}
