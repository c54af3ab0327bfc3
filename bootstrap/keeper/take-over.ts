/**
 * This host in the place of the one that made the cluster, which is gone for good or is to be one of the others. All hosts have
 * the cluster's keys; what that one alone had on its disk it gave the platform, so it is in the store.
 */
import { styleText } from 'node:util';
import { readLiveEnv, readLiveKeys } from '@flynn/controller/access/live-keys';
import { namedOf, readNamed } from '@flynn/host-agent/cluster/authority-rounds';
import { type Keeper, readKeeper, replaceKeeper } from '@flynn/host-agent/cluster/keeper';
import { readSealingKeys } from '@flynn/host-agent/cluster/sealing-keys';
import { forgetUpdate } from '@flynn/host-agent/update/record';
import { FlynnError } from '@flynn/kit/errors';
import { newSecret } from '@flynn/kit/secrets';
import type { Credentials } from '@flynn/kit/tls';
import { sealKeyOf } from '@flynn/store/sealing/envelope';
import { readRing } from '@flynn/store/sealing/ring';
import type { Store } from '@flynn/store/store';
import { leasesOf } from '../joining/admission.ts';
import { withNextAuthority } from '../rotation/authority-round.ts';
import { withStore } from '../platform/controller.ts';
import { checkDoor } from '../platform/doors.ts';
import { type Host, type Place, hostsOf, versionOfHost } from '../update/host-move.ts';
import { writeHostFiles } from '../steps/host.ts';
import { type Kept, isKeeper, underChange, withPlatform, withoutPlatform } from './keeping.ts';
import { controllerApp, gitReceiverApp } from '../platform/manifest.ts';
import { commands, isInstalled, versionOfThis } from '../origin.ts';
import { type Begun, beginning } from '../rotation/rotation.ts';
import { withRingsKey } from '../rotation/sealing-key-round.ts';
import type { Cluster } from '../settings.ts';
import { adoptHostKey } from '../state.ts';
import type { Step } from '../steps/step.ts';

type NewAuthority = () => Promise<Credentials>;

/** The cluster as it is on this host's disk from then on. Done again it changes nothing; broken off, it is gone on with. */
export async function takeOver(place: Place, newAuthority: NewAuthority): Promise<Cluster> {
  return await withStore(place, (store) => takeOverIn(store, place, newAuthority));
}

/**
 * Throws `conflict` on a host without a router, and while the one before is there and has not ended what it began; `unavailable`
 * while this host is behind.
 */
export async function takeOverIn(
  store: Store,
  { stateDir, cluster }: Pick<Place, 'stateDir' | 'cluster'>,
  newAuthority: NewAuthority,
): Promise<Cluster> {
  const former = await readKeeper(store);
  if (cluster.hasPlatform && isKeeper(cluster, former)) return cluster;
  await checkDoor(store, cluster.hostId);
  const ring = (await readRing(store))?.ring;
  const sealingKeys = await readSealingKeys(stateDir);
  const kept: Kept = {
    env: (await readLiveEnv(store, controllerApp)) ?? {},
    named: await readNamed(store),
    ring,
    nextSealingKey: sealingKeys.find((key) => sealKeyOf(key).id === ring?.next) ?? newSecret(),
  };
  const live = await readLiveKeys(store, controllerApp);
  const what = underChange(kept, live);
  // Of one that was broken off here itself nobody else would go on with it.
  if (what !== undefined && former?.hostId !== cluster.hostId) await refuseWhileThere(store, former, what);
  const round = kept.named?.round ?? 0;
  if (namedOf(cluster).round < round) {
    throw new FlynnError(
      'unavailable',
      `this host has not the cluster's authorities of round ${round} yet, which its agent fetches from another host: flynn-host doctor tells more. Nothing was changed`,
    );
  }
  await keepHostKey(store, stateDir);
  // What it began itself when it kept the platform before is of another time.
  const other = withoutPlatform(cluster, { peers: cluster.peers, live, named: kept.named });
  const own = withRingsKey(other, ring, sealingKeys);
  const taken = await takenOver(own, kept, { begun: beginning(), newAuthority });
  await replaceKeeper(store, former, { hostId: cluster.hostId, since: new Date().toISOString() });
  await writeHostFiles(stateDir, taken);
  return taken;
}

/** What people's ssh knows the cluster by is on this host's disk, too, whatever of that was lost or put back. */
export async function keepHostKey(store: Store, stateDir: string): Promise<void> {
  const sshHostKey = (await readLiveEnv(store, gitReceiverApp))?.['FLYNN_SSH_HOST_KEY'];
  if (sshHostKey !== undefined) await adoptHostKey(stateDir, sshHostKey);
}

type Beginning = { begun: Begun; newAuthority: NewAuthority };

async function takenOver(cluster: Cluster, kept: Kept, { begun, newAuthority }: Beginning): Promise<Cluster> {
  const { cluster: taken, isLost } = withPlatform(cluster, kept, begun);
  return isLost ? await withNextAuthority(taken, await newAuthority(), begun) : taken;
}

/** Who began it has what is needed to end it, as long as it is there. */
async function refuseWhileThere(store: Store, former: Keeper | undefined, what: string): Promise<void> {
  if (former === undefined || !(await hostsOf(store)).some(({ id }) => id === former.hostId)) return;
  throw new FlynnError(
    'conflict',
    `${what} is being made anew by ${former.hostId}, which is there: ${commands.up} on it goes on with that, then take over. Nothing was changed`,
  );
}

/** Other hosts of another version than this one's programs, each with its own. */
export async function othersOfAnotherVersion(place: Place): Promise<string[]> {
  const others = (await withStore(place, hostsOf)).filter(({ id }) => id !== place.cluster.hostId);
  return await ofAnotherVersion(others, (host) => versionOfHost(place, host));
}

/** Of those that do not tell nothing is known: whatever ails them, the platform needs a host that keeps it. */
export async function ofAnotherVersion<H extends Pick<Host, 'id'>>(
  hosts: readonly H[],
  ask: (host: H) => Promise<string>,
): Promise<string[]> {
  const versions = await Promise.all(
    hosts.map(async (host): Promise<string[]> => {
      try {
        const version = await ask(host);
        return version === versionOfThis() ? [] : [`${host.id} ${version}`];
      } catch {
        return [];
      }
    }),
  );
  return versions.flat();
}

/** `differing`: as `othersOfAnotherVersion` tells them. From the repository a host is brought to its version by itself alone. */
export function takenOverText({ hostId }: Cluster, differing: readonly string[]): string {
  const taken = `${hostId} keeps the platform from now on: updates, keys and the domain are changed here.\n`;
  if (differing.length === 0) return taken;
  const version = versionOfThis();
  const [how, command] = isInstalled
    ? ['Bring all to one', `flynn-host update --to ${version}`]
    : ['Bring all to one, each from the repository of that version, this one last', commands.up];
  return `${taken}Hosts are of different versions: ${differing.join(', ')}, and here are programs of ${version}. ${how}:\n\n  ${styleText('bold', command)}\n`;
}

/** `conflict` once another host has taken over; then this one is one of the others, also on its disk. */
export async function checkKept(
  store: Store,
  { stateDir, cluster }: Pick<Place, 'stateDir' | 'cluster'>,
  keeper: Keeper,
) {
  if (isKeeper(cluster, keeper)) return;
  const others = (await leasesOf(store)).filter(({ hostId }) => hostId !== cluster.hostId);
  const peers = others.map(({ address }) => address);
  const live = await readLiveKeys(store, controllerApp);
  await writeHostFiles(stateDir, withoutPlatform(cluster, { peers, live, named: await readNamed(store) }));
  // Of which version all are to be is the other's to see to.
  await forgetUpdate(stateDir);
  throw new FlynnError(
    'conflict',
    `${keeper.hostId} keeps the platform since ${keeper.since}, and this host is one of the others from now on: ${commands.up} here brings it up to date as one of them; all that is the cluster's is done on ${keeper.hostId}`,
  );
}

type OwnPlace = Pick<Place, 'stateDir' | 'cluster'>;

/** Not begun once another host has taken over, whose keys and settings it would change back. */
export function whileKept(
  step: Step,
  withOwn: (task: (store: Store, own: OwnPlace) => Promise<void>) => Promise<void>,
): Step {
  return {
    ...step,
    async run(report) {
      await withOwn(async (store, own) => {
        const keeper = await readKeeper(store);
        if (keeper !== undefined) await checkKept(store, own, keeper);
      });
      return await step.run(report);
    },
  };
}
