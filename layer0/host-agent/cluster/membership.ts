/**
 * etcd's members follow the hosts. One agent at a time leads and changes the membership; each agent runs the member that
 * was decided for its host, and every one knows where the members are.
 *
 * A member's key is `/flynn/cluster/members/<host>`; its host's agent turns it into a resident job. Without the key the
 * member and its data go.
 */
import { mkdir, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pause, systemClock } from '@flynn/kit/clock';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import { cellKeys } from '@flynn/scheduler/cell';
import type { EtcdClient } from '@flynn/store/etcd';
import type { EtcdMembership } from '@flynn/store/etcd-membership';
import { openMirror } from '@flynn/store/mirror';
import type { Mirror, Snapshot } from '@flynn/store/mirror';
import { z } from 'zod';
import { leasePrefix, leaseSchema } from '../network/lease.ts';
import { etcdResident, etcdVolume, residentFile } from './etcd-resident.ts';
import { type KnownMember, tellLost } from './lost-member.ts';
import { followMembers, openMembers } from './member-keys.ts';
import type { Member } from './member-keys.ts';
import { trustedDigest } from './member-trust.ts';
import { lead, usualPace } from './membership-leader.ts';
import type { Pace } from './membership-leader.ts';

const endpointsSchema = z.array(z.string()).min(1);

export const endpointsFile = (stateDir: string): string => join(stateDir, 'etcd-endpoints.json');

/** Where etcd was when this host last knew, or is said to be: what an agent begins with after a boot. */
export async function knownEndpoints(stateDir: string, configured: readonly string[]): Promise<string[]> {
  const known = await readJsonFile(endpointsFile(stateDir), endpointsSchema);
  return [...new Set([...(known ?? []), ...configured])];
}

const lookMs = 5_000;

/**
 * Until the signal: the store where the file says, once that names nobody whom this host knows. So a recovery tells the agent of
 * a host that had no member where the store is from then on. Whatever the members themselves tell has some of them in it.
 */
export async function followEndpointsFile(
  store: Pick<EtcdClient, 'endpoints'>,
  { stateDir, log, signal, everyMs = lookMs }: { stateDir: string; log: Logger; signal: AbortSignal; everyMs?: number },
): Promise<void> {
  let seen = '';
  while (!signal.aborted) {
    const told = (await readJsonFile(endpointsFile(stateDir), endpointsSchema)) ?? [];
    // What is in it since the last look is of before whatever the members told meanwhile.
    const isNews = told.join() !== seen;
    seen = told.join();
    if (isNews && !told.some((endpoint) => store.endpoints.includes(endpoint))) {
      log.info({ endpoints: told }, 'etcd is elsewhere from now on');
      store.endpoints = told;
    }
    await pause(everyMs, signal);
  }
}

export type MembershipOptions = {
  cluster: string;
  hostId: string;
  stateDir: string;
  store: EtcdClient;
  openMembership: () => EtcdMembership;
  /** Whether what this host's member had is gone, with its engine's disk for instance: it does not run then. */
  hasLostData: () => boolean;
  /** Takes what earlier members of this host left, but for the volumes kept. */
  removeOldData: (kept: readonly string[], signal: AbortSignal) => Promise<void>;
  log: Logger;
  pace?: Pace;
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
  const onChange = (endpoints: readonly string[]): Promise<void> =>
    writeFileAtomic(endpointsFile(options.stateDir), `${JSON.stringify(endpoints)}\n`);
  // A full disk must not end the agent: where the members are it knows all the same.
  tasks.run('etcd endpoints', (s) =>
    forever(
      'following the members of etcd',
      (limit) => followMembers(store, members, { log, signal: limit, onChange }),
      {
        signal: s,
        log,
      },
    ),
  );
  tasks.run('etcd member', (s) =>
    forever('the etcd member of this host', (limit) => followOwn(options, members, limit), { signal: s, log }),
  );
  const pace = options.pace ?? usualPace;
  tasks.run('data of etcd', (s) =>
    forever('the data of the etcd member of this host', (limit) => followData(options, members, limit), {
      signal: s,
      log,
    }),
  );
  tasks.run('etcd membership', (s) =>
    forever('the members of etcd', (limit) => lead({ ...options, members, leases, hosts, pace }, limit), {
      signal: s,
      log,
      minMs: pace.stepMs,
      maxMs: pace.idleMs,
    }),
  );
}

const residentSchema = z.object({
  template: z.object({ image: z.object({ name: z.string() }), volumes: z.array(z.object({ name: z.string() })) }),
});

/** Runs the member decided for this host; takes away one that is no longer. */
async function followOwn(options: MembershipOptions, members: Mirror<Member>, signal: AbortSignal): Promise<void> {
  const { hostId, stateDir, cluster, log } = options;
  const file = residentFile(stateDir);
  for await (const { entries } of members.changes({ signal })) {
    if (members.unreadable.has(hostId)) continue;
    const entry = entries.get(hostId);
    const own = entry?.value;
    const existing = await readJsonFile(file, residentSchema);
    if (own === undefined) await takeAway(options, members);
    else if (own.state === 'joining') {
      const { address, image, initialCluster, memberId } = own;
      if (image === undefined || initialCluster === undefined) continue;
      if (existing?.template.volumes[0]?.name !== etcdVolume(memberId)) {
        log.info('this host becomes a member of etcd');
        const trusted = await trustedDigest(stateDir);
        const joining = {
          initialCluster,
          ...(memberId === undefined ? {} : { memberId }),
          ...(trusted === undefined ? {} : { trusted }),
        };
        const resident = etcdResident({ cluster, hostId, address, image, stateDir, ...joining });
        await mkdir(dirname(file), { recursive: true, mode: 0o700 });
        await writeFileAtomic(file, `${JSON.stringify(resident, undefined, 2)}\n`);
      }
    } else if (existing === undefined) {
      await giveUp(options, entry, signal);
    }
    // A key that was written for one without, or by a recovery that was broken off, does not say which it runs with.
    const runs = (await readJsonFile(file, residentSchema))?.template.volumes ?? [];
    await options.removeOldData([etcdVolume(own?.memberId), ...runs.map(({ name }) => name)], signal);
  }
}

/** Before there is any member nothing is known of this host's, nor while what is said of it cannot be read. */
export async function takeAway(
  { hostId, stateDir, log }: Pick<MembershipOptions, 'hostId' | 'stateDir' | 'log'>,
  {
    snapshot: { entries },
    unreadable,
  }: { snapshot: Pick<Snapshot<unknown>, 'entries'>; unreadable: ReadonlySet<string> },
): Promise<void> {
  const file = residentFile(stateDir);
  if (entries.size === 0 || entries.has(hostId) || unreadable.has(hostId)) return;
  if ((await readJsonFile(file, residentSchema)) === undefined) return;
  log.warn('this host is no member of etcd any more: its member is taken away');
  await rm(file, { force: true });
}

/** Its engine may find itself without a disk at any time, and who was just writing how its member runs did so once more. */
async function followData(options: MembershipOptions, members: Mirror<Member>, signal: AbortSignal): Promise<void> {
  const { hostId, hasLostData, pace = usualPace } = options;
  for (;;) {
    if (hasLostData()) await giveUp(options, members.snapshot.entries.get(hostId), signal);
    await takeAway(options, members);
    await systemClock.sleep(pace.idleMs, { signal });
  }
}

/**
 * A host that is to have a member with a vote, and has nothing of it, was set up anew, or its engine was: as the same member with
 * an empty disk it would break what etcd promised.
 */
async function giveUp(
  { hostId, store, log }: MembershipOptions,
  entry: KnownMember | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (entry?.value.state !== 'voter') return;
  log.warn('this host is a member of etcd, but has nothing of it: it is to become another');
  await tellLost(store, hostId, { entry, signal });
}
