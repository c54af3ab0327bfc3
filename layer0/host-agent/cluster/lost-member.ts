/**
 * A member that its host can go on with no more: it is said to be lost, the leader takes it out of etcd's cluster, and the
 * host becomes another one, with all that the others have. While its data differs from theirs etcd takes no writes, so that
 * nobody can be told: then it is taken out here.
 */
import { clientUrlOf } from './etcd-resident.ts';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { retry, waitFor, withDeadline } from '@flynn/kit/retry';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { etcdMembership } from '@flynn/store/etcd-membership';
import { endAlarm, etcdStatus } from '@flynn/store/etcd-status';
import type { Store } from '@flynn/store/store';
import { type Member, memberKey, memberPrefix, memberSchema } from './member-keys.ts';

const askMs = 10_000;
/** Each member that answers tells of all alarms. */
const alarmMs = 3_000;
const removedMs = 60_000;
/** Out of the others, in again, and all of the data over the network. */
const replacedMs = 5 * 60_000;

export type KnownMember = Readonly<{ value: Member; modRevision: number }>;

/** Whether it was that member still. */
export async function tellLost(
  store: Pick<Store, 'transact'>,
  hostId: string,
  { entry: { value, modRevision }, signal }: { entry: KnownMember; signal: AbortSignal },
): Promise<boolean> {
  const key = memberKey(hostId);
  const lost: Member = { ...value, state: 'lost' };
  const { succeeded } = await store.transact(
    { compare: [{ key, modRevision }], then: [{ put: key, value: JSON.stringify(lost) }] },
    { signal },
  );
  return succeeded;
}

/**
 * Resolves once the host is another member, or another host is one in its place. `not_found` on one without, `conflict` where the
 * others are no majority without it, or another member is the one whose data differs, `unavailable` without a majority. Broken off,
 * the same goes on.
 */
export async function replaceMember(
  store: Store,
  hostId: string,
  { tls, report, signal }: { tls: EtcdTls | undefined; report: (line: string) => void; signal: AbortSignal },
): Promise<'this host' | 'another host'> {
  const members = await readMembers(store, signal);
  const own = members.get(hostId);
  if (own === undefined) {
    throw new FlynnError('not_found', 'this host has no member of etcd: "flynn-host status" tells where they are');
  }
  const former = own.value.state === 'voter' ? own.value.memberId : undefined;
  const access = { tls, signal };
  if (
    await takeOutDiffering(hostId, { own: clientUrlOf(own.value.address), others: others(members, hostId) }, access)
  ) {
    report('its member is taken out of etcd, which takes writes again; the host becomes another');
  } else if (own.value.state === 'voter') {
    await checkOthers(others(members, hostId), { tls, signal });
    if (!(await tellLost(store, hostId, { entry: own, signal }))) {
      throw new FlynnError('conflict', 'the members of etcd change at this moment: type the same again');
    }
    report('its member is given up; the host becomes another');
  } else report('going on with what was begun');
  const votes = others(members, hostId).length + 1;
  const replacedBy = async () => {
    const now = await readMembers(store, signal);
    const value = now.get(hostId)?.value;
    // Hosts that joined before it come first.
    if (value === undefined) return others(now, hostId).length >= votes && 'another host';
    return value.state === 'voter' && (value.memberId !== former || own.value.state !== 'voter') && 'this host';
  };
  return await waitFor(replacedBy, {
    what: 'the host to be another member: does its agent run ("flynn-host status")? The same command goes on',
    deadlineMs: replacedMs,
    intervalMs: 500,
    signal,
  });
}

/**
 * Whether the alarm was about this host's member, which is none any more then. Ends it, and those of members that are none
 * any more: it was broken off in between.
 */
async function takeOutDiffering(
  hostId: string,
  endpoints: { own: string; others: readonly string[] },
  { tls, signal }: { tls: EtcdTls | undefined; signal: AbortSignal },
): Promise<boolean> {
  // Without certificates there is but one member, which differs from nobody.
  if (tls === undefined) return false;
  const access = { signal, tls };
  const asked = { ...access, endpoints: [endpoints.own, ...endpoints.others], signal: withDeadline(alarmMs, signal) };
  const alarms = (await etcdStatus(asked)).alarms.filter(({ kind }) => kind === 'corrupt');
  if (alarms.length === 0) return false;
  await checkOthers(endpoints.others, { tls, signal });
  await using membership = etcdMembership({ endpoints: () => endpoints.others, tls });
  const peers = await membership.list();
  const peer = peers.find(({ name }) => name === hostId);
  const isOwn = peer !== undefined && alarms.some(({ memberId }) => memberId === peer.id || memberId === '0');
  const ended = alarms.filter(
    ({ memberId }) => memberId === '0' || memberId === peer?.id || !peers.some(({ id }) => id === memberId),
  );
  if (ended.length === 0) {
    const names = alarms.map(({ memberId }) => peers.find(({ id }) => id === memberId)?.name ?? memberId);
    throw new FlynnError(
      'conflict',
      `the data of the member on ${names.join(', ')} differs from that of the others (alarm CORRUPT): type the same there. Nothing was changed`,
    );
  }
  if (isOwn) {
    // etcd refuses for seconds after members changed, until all that are left have been connected for long enough.
    const removing = async () => {
      const isThere = (await membership.list()).some(({ id }) => id === peer.id);
      if (isThere) await membership.remove(peer.id);
    };
    await retry(removing, { what: 'taking the member out', deadlineMs: removedMs, signal });
  }
  for (const alarm of ended) {
    const ending = () => endAlarm(endpoints.others[0] ?? endpoints.own, alarm, access);
    await retry(ending, { what: 'ending the alarm', deadlineMs: askMs, signal });
  }
  return isOwn;
}

async function readMembers(store: Store, signal: AbortSignal): Promise<Map<string, KnownMember>> {
  try {
    const { entries } = await store.list(memberPrefix, { signal });
    return new Map(
      entries.map(({ key, value, modRevision }) => [
        key.slice(memberPrefix.length),
        { value: memberSchema.parse(JSON.parse(value)), modRevision },
      ]),
    );
  } catch (error) {
    if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    const remedy = 'bring another member back, or see what "flynn-host etcd recover" tells. Nothing was changed';
    throw new FlynnError('unavailable', `etcd has no majority without this host: ${remedy}`, { cause: error });
  }
}

function others(members: ReadonlyMap<string, KnownMember>, hostId: string): string[] {
  const voters = [...members].filter(([id, { value }]) => id !== hostId && value.state === 'voter');
  return voters.map(([, { value }]) => clientUrlOf(value.address));
}

async function checkOthers(
  endpoints: readonly string[],
  { tls, signal }: { tls: EtcdTls | undefined; signal: AbortSignal },
): Promise<void> {
  const asked = { endpoints, signal: withDeadline(askMs, signal), ...(tls === undefined ? {} : { tls }) };
  const { members } = await etcdStatus(asked);
  const silent = members.filter(({ answer }) => answer?.leaderId === undefined);
  if (endpoints.length > 0 && members.length - silent.length > endpoints.length / 2) return;
  const why =
    endpoints.length === 0
      ? 'there is no other'
      : `${silent.map(({ endpoint }) => endpoint).join(', ')} would be missing`;
  throw new FlynnError(
    'conflict',
    `without this host's member etcd would have no majority: ${why}. "flynn-host etcd recover" tells what there is to do then. Nothing was changed`,
  );
}
