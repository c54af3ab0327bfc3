/**
 * Taking this host out of a cluster that goes on without it: its work first, then its place in etcd and the network, then its
 * name.
 */
import { checkSoleCopiesAt } from '@flynn/controller/hosts/blobs';
import { whileCopied } from '@flynn/controller/hosts/sole-copies';
import { createDiscoveryClient } from '@flynn/discovery/client';
import { partOf } from '@flynn/discovery/parts';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { readKeeper } from '@flynn/host-agent/cluster/keeper';
import { leaseAgain, releaseSubnet } from '@flynn/host-agent/cluster/subnets';
import { leasePrefix, leaseSchema } from '@flynn/host-agent/network/lease';
import { changeSettings, readSettings } from '@flynn/host-agent/hosts/settings';
import { readHostIdentity } from '@flynn/host-agent/trust/host-trust';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor, withDeadline } from '@flynn/kit/retry';
import { assignmentSchema, cellKeys, claimSchema } from '@flynn/scheduler/cell';
import { decodeJson } from '@flynn/store/codec';
import type { Entry, Store } from '@flynn/store/store';
import { withStore } from '../platform/controller.ts';
import { checkHoldings, holdingsOf, volumesHere } from './holdings.ts';
import { isKeeper } from '../keeper/keeping.ts';
import { type KeptVolume, volumesText } from './kept-volumes.ts';
import { commands } from '../origin.ts';
import { type Cluster, gatewayOf } from '../settings.ts';
import type { Report } from '../steps/timed.ts';

const reachMs = 10_000;
/** What has no room elsewhere by then is stopped by the schedulers, which takes them a moment. */
const drainMs = 60_000;
const emptyMs = 75_000;
/** Jobs of a workload that move at a time: nobody waits for a host that leaves longer than he must. */
const drainParallel = 16;
/** As long as copies are made it waits; without any it gives up earlier. */
const blobsMs = 6 * 3_600_000;
/** etcd's members change one at a time, each once it has caught up: where this host's was the only one, with all of the data. */
const memberMs = 180_000;
/** For the schedulers to place elsewhere what was still here. */
const missMs = 20_000;

/** `conflict` while this host alone has blobs. */
type CheckBlobs = (limits: { signal: AbortSignal }) => Promise<void>;
/** Throws where it cannot be told. */
type ListVolumes = () => Promise<readonly KeptVolume[]>;
/** Whether etcd counts this host as a member, whichever members there are by then. */
type HasMember = () => Promise<boolean>;
/** Of `leaveCluster`, whatever has to be waited for. */
export const leaveMs = blobsMs + memberMs + 180_000;

type Host = { stateDir: string; cluster: Cluster };
type Leaving = Host & { dockerSocket: string; isForced: boolean; report: Report };

/**
 * While the host agent runs. Answers whether the cluster knows of it and goes on. The last host just goes. With others there
 * the one that made the cluster stays, unless forced: the platform's own data is on it. Where the cluster does not answer, or does
 * not let this host in any more, whoever has anything that would be lost stays, unless forced.
 */
export async function leaveCluster({ stateDir, cluster, dockerSocket, isForced, report }: Leaving): Promise<boolean> {
  const host = { stateDir, cluster, log: silentLogger() };
  try {
    await using discovery = createDiscoveryClient({ url: `http://${gatewayOf(cluster.subnet)}:1111` });
    const checkBlobs: CheckBlobs = async (limits) => {
      const blobs = { ...partOf(discovery, 'blobstore', await readHostIdentity(stateDir)), key: cluster.key };
      await checkSoleCopiesAt(blobs, cluster.hostId, limits);
    };
    const listVolumes: ListVolumes = () => volumesHere({ ...host, dockerSocket });
    // The members that are known now may all be gone then: this host's own may be the only one.
    const hasMember: HasMember = () => withStore(host, (store) => isMember(store, cluster.hostId));
    return await withStore(host, async (store) => {
      // Its own disk may not have heard yet that another host has taken over.
      const hasPlatform = isKeeper(cluster, await readKeeper(store));
      return await leave(store, { ...cluster, hasPlatform }, { isForced, report, checkBlobs, listVolumes, hasMember });
    });
  } catch (error) {
    await leaveUntold(error, { stateDir, cluster, dockerSocket, isForced, report });
    return false;
  }
}

/** `cause`: of what came of asking the cluster. Thrown again where that is no silence, unless forced; then whatever it was. */
export async function leaveUntold(cause: unknown, { isForced, report, ...here }: Leaving): Promise<void> {
  if (!isForced && !hasCode(cause, 'unavailable', 'timeout', 'unauthenticated')) throw cause;
  checkHoldings(await holdingsOf(here), { hostId: here.cluster.hostId, cause, isForced, report });
}

type LeavingOptions = Pick<Leaving, 'isForced' | 'report'> & {
  checkBlobs: CheckBlobs;
  listVolumes: ListVolumes;
  hasMember: HasMember;
  deadlineMs?: number;
};
type LeavingHost = Pick<Cluster, 'hostId' | 'hasPlatform'>;

/**
 * Whether others go on. May be repeated, also when an earlier one was interrupted. From the first look at what is here nothing new
 * comes; where it throws the host has its subnet, and takes jobs, as before.
 */
export async function leave(
  store: Store,
  { hostId, hasPlatform }: LeavingHost,
  { isForced, report, checkBlobs, listVolumes, hasMember, deadlineMs = memberMs }: LeavingOptions,
): Promise<boolean> {
  const limits = { signal: AbortSignal.timeout(reachMs) };
  const member = await store.get(memberKey(hostId), limits);
  const { entries } = await store.list(leasePrefix);
  const others = entries.map(({ key }) => key.slice(leasePrefix.length)).filter((id) => id !== hostId);
  if (others.length === 0) return false;
  if (!isForced && member !== undefined) refuseUnread(entries, hostId);
  if (hasPlatform && !isForced) {
    throw new FlynnError(
      'conflict',
      `other hosts are in this cluster: ${others.join(', ')}. This one keeps the platform: have another of them take that over first (${commands.takeOver} there), or take this one down all the same with ${commands.force}`,
    );
  }
  const reopen = await closeToJobs(store, hostId);
  try {
    await checkVolumes(listVolumes, { isForced, report });
    await untilCopied(checkBlobs, { isForced, report });
    await moveJobs(store, hostId, others, report);
    // A scheduler that had not heard yet that this host is closed may have placed one more job with data.
    if (!isForced) await checkVolumes(listVolumes, { isForced, report });
    await giveUpPlace(store, hostId, { isForced, report, hasMember, deadlineMs });
  } catch (error) {
    await takenBack(reopen, { what: `${hostId} takes no jobs: flynn host uncordon ${hostId} opens it`, report });
    throw error;
  }
  report(`${hostId} left the cluster; ${others.length} ${others.length === 1 ? 'host goes' : 'hosts go'} on`);
  return true;
}

/** Whose members etcd has could not be told: it would keep this host's, which would then have no subnet and could get none. */
function refuseUnread(entries: readonly Entry[], hostId: string): void {
  for (const { key, value } of entries) {
    const other = key.slice(leasePrefix.length);
    try {
      if (other !== hostId) decodeJson(leaseSchema, value, key);
    } catch (error) {
      throw notKnown(
        `the subnet of ${other}`,
        error,
        `Have that host tell it anew (${commands.up} there), or take it out if it is gone (flynn host remove ${other}); or leave all the same: ${commands.force}`,
      );
    }
  }
}

/** Answers how that is taken back. One that is not there is given nothing, and one that drains is closed already. */
async function closeToJobs(store: Store, hostId: string): Promise<() => Promise<void>> {
  const { cordoned, drain } = await readSettings(store, hostId, { signal: AbortSignal.timeout(reachMs) });
  if (drain !== undefined) return async () => undefined;
  const change = async (to: { cordoned: boolean } | { drain: null }): Promise<void> => {
    await changeSettings(store, hostId, to, { signal: AbortSignal.timeout(reachMs), now: Date.now() });
  };
  try {
    await change({ cordoned: true });
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    return async () => undefined;
  }
  return () => change(cordoned ? { drain: null } : { cordoned: false });
}

/** Whatever comes of it: why it has to be is thrown already. */
async function takenBack(task: () => Promise<void>, { what, report }: { what: string; report: Report }): Promise<void> {
  try {
    await task();
  } catch (error) {
    report(`${what} (${messageOf(error)})`);
  }
}

/** Of the network, upon which etcd takes its member away. It has its subnet again where etcd does not go on without it. */
async function giveUpPlace(
  store: Store,
  hostId: string,
  { report, ...options }: Omit<Required<LeavingOptions>, 'checkBlobs' | 'listVolumes'>,
): Promise<void> {
  const lease = await releaseSubnet(store, hostId, options).catch((error: unknown) => {
    if (!hasCode(error, 'invalid')) throw error;
    throw notKnown(`the subnet of ${hostId}`, error, `Leave all the same: ${commands.force}`);
  });
  try {
    await untilNoMember(hostId, { report, ...options });
  } catch (error) {
    if (lease !== undefined) {
      const signal = AbortSignal.timeout(reachMs);
      const what = `${hostId} has no lease of its subnet any more: ${commands.up} gives it one, ${commands.down} goes on`;
      await takenBack(async () => void (await leaseAgain(store, lease, { signal })), { what, report });
    }
    throw error;
  }
}

async function isMember(store: Store, hostId: string): Promise<boolean> {
  return (await store.get(memberKey(hostId))) !== undefined;
}

/** Its disk goes with it: the others' members may be no majority without it, or not have what the cluster knows. */
async function untilNoMember(
  hostId: string,
  { isForced, report, hasMember, deadlineMs }: Omit<Required<LeavingOptions>, 'checkBlobs' | 'listVolumes'>,
): Promise<void> {
  const what = `etcd to go on without ${hostId}`;
  report(`waiting for ${what}`);
  try {
    await waitFor(async () => !(await hasMember()), { what, deadlineMs, intervalMs: 500 });
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    const still = `etcd still counts ${hostId} as a member`;
    if (isForced) return report(`${still}: without it the cluster may be lost, as you force it`);
    throw new FlynnError(
      'conflict',
      `${still}: without it there may be no majority, or nothing left of what the cluster knows. See that the other hosts are up and well (flynn-host status), then type the same again; or leave all the same: ${commands.force}. Nothing was erased`,
      { cause: error },
    );
  }
}

/** Its disk goes with it, and what apps keep there is nowhere else. Forced, it says what is lost. */
async function checkVolumes(list: ListVolumes, { isForced, report }: Pick<Leaving, 'isForced' | 'report'>) {
  let volumes: readonly KeptVolume[];
  try {
    volumes = await list();
  } catch (error) {
    const what = 'what apps keep on volumes of this host';
    // Whatever the reason is that it could not be asked.
    const remedy = `Start its agent or its container engine, or leave all the same: ${commands.force}`;
    if (!isForced) throw notKnown(what, error, remedy);
    return report(`${what} is not known (${messageOf(error)}) and lost with its disk, as you force it`);
  }
  if (volumes.length === 0) return;
  const what = `apps keep data on volumes of this host: ${volumesText(volumes)}`;
  if (isForced) return report(`${what}: lost with its disk, as you force it`);
  throw new FlynnError(
    'conflict',
    `${what}. It would be lost. Copy it (docs/files.md) and remove what nobody needs (flynn volume remove), or leave all the same: ${commands.force}. Nothing was erased`,
  );
}

/** Its disk goes with it: other hosts take over what it alone has of blobs first. Forced, it says what is lost. */
async function untilCopied(checkBlobs: CheckBlobs, { isForced, report }: Pick<Leaving, 'isForced' | 'report'>) {
  const signal = withDeadline(blobsMs);
  const check = () => checkBlobs({ signal });
  const remedy = `or leave all the same, and lose them: ${commands.force}`;
  try {
    await (isForced ? check() : whileCopied(check, { report, remedy, signal }));
  } catch (error) {
    const what = 'what it alone has of blobs';
    const isSilence = hasCode(error, 'unavailable', 'timeout');
    if (!isForced) throw isSilence ? notKnown(what, error, `Try again, ${remedy}`) : error;
    if (hasCode(error, 'conflict')) report(`${messageOf(error)}: lost with its disk, as you force it`);
    // Whatever it was that could not be asked: its jobs are moved all the same.
    else report(`${what} is not known (${messageOf(error)}) and lost with its disk, as you force it`);
  }
}

/** To `leaveCluster` it would be a reason to go that the cluster cannot be told; but it can, and this is none. */
function notKnown(what: string, error: unknown, remedy: string): FlynnError {
  return new FlynnError('conflict', `${what} is not known: ${messageOf(error)}. ${remedy}`, { cause: error });
}

/** Replacements first, as when an operator drains it. */
async function moveJobs(store: Store, hostId: string, others: readonly string[], report: Report): Promise<void> {
  const signal = AbortSignal.timeout(emptyMs + reachMs);
  const { entries } = await store.list(cellKeys.hosts, { signal });
  const there = new Set(entries.map(({ key }) => key.slice(cellKeys.hosts.length)));
  // Without an agent here nothing can be moved, without another host there is nowhere to go.
  if (!there.has(hostId) || !others.some((id) => there.has(id))) return;
  if ((await jobsOn(store, hostId)) === 0) return;
  const drain = { deadlineMs: drainMs, maxParallel: drainParallel };
  await changeSettings(store, hostId, { drain }, { signal, now: Date.now() });
  let told = -1;
  try {
    await waitFor(
      async () => {
        const left = await jobsOn(store, hostId);
        if (left !== told) report(left === 0 ? 'its jobs run elsewhere' : `moving ${jobsText(left)} to other hosts`);
        told = left;
        return left === 0;
      },
      { what: `the jobs of ${hostId} to run elsewhere`, deadlineMs: emptyMs, intervalMs: 300, signal },
    );
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    report(`${jobsText(told)} could not be moved and end here: flynn eval list --state blocked says why`);
  }
}

async function jobsOn(store: Store, hostId: string): Promise<number> {
  const claim = await store.get(cellKeys.claim(hostId));
  return claim === undefined ? 0 : claimSchema.parse(JSON.parse(claim.value)).jobs;
}

const jobsText = (count: number): string => `${count} ${count === 1 ? 'job' : 'jobs'}`;

/** Once nothing of it runs here any more: it is not `away` then, but was never there. */
export async function forgetHost({ stateDir, cluster }: Host, report: Report): Promise<void> {
  const { hostId } = cluster;
  const host = { stateDir, cluster, log: silentLogger() };
  try {
    await withStore(host, (store) => forget(store, hostId));
  } catch (error) {
    if (!hasCode(error, 'unavailable', 'timeout', 'conflict')) throw error;
    report(
      `${hostId} stays in "flynn host list" as away (${messageOf(error)}); later, on another host: flynn host remove ${hostId} --yes`,
    );
  }
}

/** `conflict` when workloads wait for this host, because their data was on it. */
export async function forget(store: Store, hostId: string, { deadlineMs = missMs } = {}): Promise<void> {
  // It says so itself, instead of leaving its lease to run out.
  await store.transact({ then: [{ delete: cellKeys.host(hostId) }] });
  try {
    await waitFor(async () => (await jobsOn(store, hostId)) === 0, {
      what: `the work of ${hostId} to be placed elsewhere`,
      deadlineMs,
      intervalMs: 200,
    });
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    const waiting = await workloadsOn(store, hostId);
    throw new FlynnError('conflict', `these wait for data they had on it: ${waiting.join(', ')}`, { cause: error });
  }
  const claim = await store.get(cellKeys.claim(hostId));
  const { succeeded } = await store.transact({
    compare: [
      { key: cellKeys.host(hostId), modRevision: 0 },
      { key: cellKeys.claim(hostId), modRevision: claim?.modRevision ?? 0 },
    ],
    then: [
      // One of nothing, where its jobs had moved before it left.
      { delete: cellKeys.claim(hostId) },
      { delete: cellKeys.hostSettings(hostId) },
      { deletePrefix: cellKeys.hostAssignments(hostId) },
      { deletePrefix: cellKeys.hostStatus(hostId) },
    ],
  });
  if (!succeeded) throw new FlynnError('conflict', `a host ${hostId} joined meanwhile, or was given work`);
}

async function workloadsOn(store: Store, hostId: string): Promise<string[]> {
  const { entries } = await store.list(cellKeys.hostAssignments(hostId));
  const groups = entries.flatMap(({ value }) => assignmentSchema.parse(JSON.parse(value)).groups);
  return [...new Set(groups.map(({ workloadId }) => workloadId))].sort();
}
