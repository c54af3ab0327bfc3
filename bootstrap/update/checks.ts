/** What is looked at before a cluster is moved to another version: of what is wrong people hear while nothing was changed. */
import { dirname } from 'node:path';
import { readKeeper } from '@flynn/host-agent/cluster/keeper';
import { readEncryption } from '@flynn/host-agent/network/encryption';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { leasesOf } from '../joining/admission.ts';
import type { BundleSize } from '../bundle/size.ts';
import { withStore } from '../platform/controller.ts';
import { checkDoor } from '../platform/doors.ts';
import { checkKnown, features } from './features.ts';
import { type Host, type Place, awayOf, hostsOf, roomOnHost, sickMembers, versionOfHost } from './host-move.ts';
import { commands, root } from '../origin.ts';
import { shortOf } from './room.ts';
import type { Cluster } from '../settings.ts';
import { checkKept } from '../keeper/take-over.ts';

const awayMs = 15_000;
const encryptionMs = 120_000;

export function checkPlace(cluster: Cluster | undefined): Cluster {
  if (cluster === undefined) {
    throw new FlynnError('not_found', `this machine is no host of a cluster: ${commands.up} makes it one`);
  }
  if (cluster.hasPlatform) return cluster;
  throw new FlynnError(
    'conflict',
    `another host than ${cluster.hostId} keeps the platform, and updates the cluster: run it there (flynn-host status says which it is), or, where that is gone for good, or said to be this one, ${commands.takeOver} here first`,
  );
}

/** Whether this host is the one to move the cluster. Asked first: programs of a version before do not know of keepers. */
export function checkKeeping(place: Place): Promise<void> {
  return withStore(place, async (store) => {
    const keeper = await readKeeper(store);
    if (keeper !== undefined) await checkKept(store, place, keeper);
    await checkDoor(store, place.cluster.hostId);
  });
}

/** That what is to run knows what the cluster stands on. Of a version that is not here whoever moves the cluster tells. */
export async function checkFeatures(
  place: Place,
  next: Readonly<{ version: string; features: readonly string[] }> | undefined,
): Promise<void> {
  if (next === undefined || features.every((one) => next.features.includes(one))) return;
  const standing = await withStore(place, async (store) => ({
    encryption: await readEncryption(store, AbortSignal.timeout(encryptionMs)),
    behindNat: (await leasesOf(store)).flatMap(({ hostId, site }) => (site === undefined ? [] : [hostId])),
  }));
  checkKnown(next, standing);
}

/** On all hosts, before anything is installed on any. */
export async function checkRoom(place: Place, bundle: BundleSize): Promise<void> {
  const short: string[] = [];
  for (const host of await withStore(place, hostsOf)) {
    const hasFile = host.id === place.cluster.hostId;
    try {
      const room = await roomOnHost(place, host);
      if (room !== undefined) short.push(...shortOf(room, bundle, { hasFile }).map((line) => `${host.id}: ${line}`));
    } catch (error) {
      // One that does not answer is looked at with the hosts that are away.
      if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    }
  }
  if (short.length === 0) return;
  throw new FlynnError(
    'exhausted',
    `there is too little room for version ${bundle.version}:\n  ${short.join('\n  ')}\nNothing was changed. Make room, such as a version in ${dirname(root)} that is neither in use nor the one before, and run the same command again`,
  );
}

/** Hosts of the cluster that are not there; this one is brought back by its own steps. */
export async function checkAway(
  place: Place,
  { hosts, leavesAway }: { hosts: readonly Host[]; leavesAway: boolean },
): Promise<void> {
  // One whose agent has just been replaced takes a moment.
  const others = async (): Promise<string[]> =>
    (await withStore(place, awayOf)).filter((id) => id !== place.cluster.hostId);
  const away = await untilNone(others);
  if (away.length === 0) return;
  const [are, them] = away.length === 1 ? [`${away[0]} is away`, 'it'] : [`${away.join(', ')} are away`, 'them'];
  if (leavesAway) {
    const there = hosts.map(({ id }) => id).join(', ');
    process.stdout.write(`${are}, and left there: only ${there} move. The same command again takes in who is back.\n`);
    return;
  }
  throw new FlynnError(
    'conflict',
    `${are}: bring ${them} back, or remove ${them} for good (flynn host remove), so that none is left behind, or go on without ${them} (--leave-away). Nothing was changed`,
  );
}

/** Each host's turn may take its member of the store from it for a moment: that has to be the only one. */
export async function checkMembers(place: Place, hosts: readonly Host[]): Promise<void> {
  const sick = await sickMembers(place, hosts);
  if (sick.length === 0) return;
  throw new FlynnError(
    'unavailable',
    `the store does not answer on ${sick.join(', ')}: flynn-host doctor tells more. Nothing was changed`,
  );
}

/** As people read it: of which version each is, and who does not say so. */
export async function versionsOf(place: Place, hosts: readonly Host[]): Promise<{ known: string[]; silent: string[] }> {
  const [known, silent]: [string[], string[]] = [[], []];
  for (const host of hosts) {
    try {
      known.push(`${host.id} ${await versionOfHost(place, host)}`);
    } catch (error) {
      // Of this one it is told by the step that starts its agent.
      if (host.id !== place.cluster.hostId) silent.push(`${host.id} does not answer (${messageOf(error)})`);
    }
  }
  return { known, silent };
}

/** A host's, as its agent says; of one of old, or that does not answer, nothing is known. */
export type HostVersions = Readonly<{ id: string; versions: readonly string[] | undefined }>;

export type Ways = Readonly<{
  /** What hosts are not sent, for there is no bundle. */
  to?: string | undefined;
  /** What they go back to where it fails. */
  back?: string | undefined;
  /** Whether the others move all the same: one host that was away when a version came is not to keep all from going back to it. */
  leavesAway: boolean;
}>;

/** Hosts are sent one version at most: whatever else they may have to become has to be there. `left`: who cannot be taken along. */
export function judgeWays(
  hosts: readonly HostVersions[],
  { to, back, leavesAway }: Ways,
): { left: readonly string[]; refusal?: FlynnError } {
  const without = (version: string | undefined): string[] =>
    hosts.flatMap(({ id, versions }) =>
      version === undefined || versions === undefined || versions.includes(version) ? [] : [id],
    );
  const lackingTo = without(to);
  const left = leavesAway ? lackingTo : [];
  if (lackingTo.length > left.length) {
    const what = `${notHaving(lackingTo)} version ${to}: give its bundle, with --bundle FILE. Nothing was changed`;
    return { left, refusal: new FlynnError('not_found', what) };
  }
  const lackingBack = without(back).filter((id) => !left.includes(id));
  if (lackingBack.length === 0) return { left };
  const refusal = new FlynnError(
    'conflict',
    `${notHaving(lackingBack)} version ${back}, to which the cluster goes back where this fails: bring all hosts there first (flynn-host update --to ${back} --bundle FILE, with the bundle of that version), or go without a way back (--stay). Nothing was changed`,
  );
  return { left, refusal };
}

const notHaving = (ids: readonly string[]): string => `${ids.join(', ')} ${ids.length === 1 ? 'does' : 'do'} not have`;

/** Who is left as it is. This host's own are on its disk, whether or not its agent is there. */
export async function checkWays(place: Place, hosts: readonly Host[], ways: Ways): Promise<readonly string[]> {
  const others = hosts.filter(({ id }) => id !== place.cluster.hostId);
  const known: HostVersions[] = [];
  for (const host of others) {
    try {
      known.push({ id: host.id, versions: (await roomOnHost(place, host))?.versions });
    } catch (error) {
      // One that does not answer is told of with the versions that run.
      if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    }
  }
  const { left, refusal } = judgeWays(known, ways);
  if (refusal !== undefined) throw refusal;
  if (left.length > 0) {
    const are = left.length === 1 ? 'is left as it is' : 'are left as they are';
    process.stdout.write(`${notHaving(left)} version ${ways.to}, and ${are}: the others move.\n`);
  }
  return left;
}

/** What is on the list once it is empty, or has not become so for a while. */
async function untilNone(list: () => Promise<string[]>): Promise<string[]> {
  let last: string[] | undefined;
  try {
    await waitFor(
      async () => {
        last = await list();
        return last.length === 0;
      },
      { what: 'all hosts to be there', deadlineMs: awayMs, intervalMs: 500 },
    );
  } catch (error) {
    if (!hasCode(error, 'timeout') || last === undefined) throw error;
  }
  return last ?? [];
}
