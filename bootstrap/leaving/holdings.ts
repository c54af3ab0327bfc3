/**
 * What of a cluster is on this host's disk, as the disk and the engine alone say: nobody of the cluster is asked. It goes with
 * the host, and where the cluster cannot be asked nobody knows whether others have it.
 */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { residentFile } from '@flynn/host-agent/cluster/etcd-resident';
import { knownEndpoints } from '@flynn/host-agent/cluster/membership';
import { metaOfLabels, volumeName } from '@flynn/host-agent/engine/labels';
import { networkFile, recall } from '@flynn/host-agent/network/memory';
import { ownVolumeOf } from '@flynn/controller/volumes/names';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { engineAt, isEngineUp } from '../machine/engine.ts';
import type { Place } from '../update/host-move.ts';
import { type KeptVolume, keptVolumes, volumesText } from './kept-volumes.ts';
import { type EngineVolume, labelledVolumes } from './removal.ts';
import { commands } from '../origin.ts';
import type { Cluster } from '../settings.ts';
import type { Report } from '../steps/timed.ts';

const listMs = 20_000;
/** Of the blob store, as the manifest has it. */
const blobsVolume = 'blobs';

export type Holdings = Readonly<{
  /** Whether this is the only host that the cluster had when this host last knew: it takes all with it, as it is asked to. */
  isAlone: boolean;
  /** Of apps. `undefined`: the engine does not say; `silence` is why. */
  volumes: readonly KeptVolume[] | undefined;
  silence?: string;
  hasBlobs: boolean;
  hasMember: boolean;
  hasPlatform: boolean;
}>;

type HeldBy = Readonly<{ stateDir: string; cluster: Cluster; dockerSocket: string }>;

export async function holdingsOf({ stateDir, cluster, dockerSocket }: HeldBy): Promise<Holdings> {
  const here = { hasMember: existsSync(residentFile(stateDir)), hasPlatform: cluster.hasPlatform };
  const isAlone = await isLast(stateDir, cluster);
  try {
    if (!(await isEngineUp(dockerSocket))) {
      throw new FlynnError('unavailable', `the container engine at ${dockerSocket} does not answer`);
    }
    const docker = engineAt(dockerSocket);
    const volumes = await labelledVolumes(docker, cluster.name, { signal: withDeadline(listMs) });
    const hasBlobs = volumes.some(({ name }) => name === volumeName(cluster.name, blobsVolume));
    return { ...here, isAlone, volumes: keptOf(cluster.name, volumes), hasBlobs };
  } catch (error) {
    return { ...here, isAlone, volumes: undefined, silence: messageOf(error), hasBlobs: false };
  }
}

/**
 * What apps keep here, as the agent says; as the engine does where the agent is not there, such as after an earlier run that was
 * broken off, or says nothing. Throws what the agent's silence was where the engine says nothing either.
 */
export async function volumesHere(
  { dockerSocket, ...place }: Place & Pick<HeldBy, 'dockerSocket'>,
  ask: typeof keptVolumes = keptVolumes,
): Promise<readonly KeptVolume[]> {
  try {
    return await ask(place);
  } catch (error) {
    const { volumes } = await holdingsOf({ ...place, dockerSocket });
    if (volumes === undefined) throw error;
    return volumes;
  }
}

/** As `keptVolumes` has them of the agent, but for how much is in them. */
function keptOf(cluster: string, volumes: readonly EngineVolume[]): KeptVolume[] {
  const prefix = volumeName(cluster, '');
  return volumes.flatMap(({ name: full, labels }): KeptVolume[] => {
    const volume = full.startsWith(prefix) ? ownVolumeOf(full.slice(prefix.length)) : undefined;
    if (volume === undefined) return [];
    const { appId, type, name } = volume;
    return [{ app: metaOfLabels(labels)['flynn.app_name'] ?? appId, type, name, bytes: undefined }];
  });
}

/** One that was never told of any other host, or has been told that they left. */
async function isLast(stateDir: string, { hostId, peers }: Cluster): Promise<boolean> {
  try {
    if ((await knownEndpoints(stateDir, [])).length > 1) return false;
    const known = await recall(join(stateDir, networkFile));
    return known === undefined ? peers.length === 0 : known.leases.every((lease) => lease.hostId === hostId);
  } catch (error) {
    // A file that is damaged says of nobody that he is gone.
    if (hasCode(error, 'invalid')) return false;
    throw error;
  }
}

type Untold = Readonly<{ hostId: string; cause: unknown; isForced: boolean; report: Report }>;

/**
 * Whether this host may go while the cluster cannot be told, `cause` being why: `conflict` where anything would be lost with it,
 * but for the last host and for who forces it, who is told what is lost.
 */
export function checkHoldings(holdings: Holdings, { hostId, cause, isForced, report }: Untold): void {
  if (holdings.isAlone) return;
  const lost = holdingsText(holdings).join('; ');
  const untold = `the cluster cannot be told (${messageOf(cause)})`;
  if (lost !== '' && !isForced) {
    const first = hasCode(cause, 'unauthenticated')
      ? `Where the cluster's authority was made anew while this host was away, ${commands.join} brings it back with all it has`
      : 'Bring the cluster back first (docs/operating.md, "When it does not work"), then type the same again';
    throw new FlynnError(
      'conflict',
      `${untold}, so nobody knows whether it goes on without this host. With its disk would be lost: ${lost}. ${first}; or lose that: ${commands.force}. Nothing was erased`,
      { cause },
    );
  }
  if (lost !== '') report(`lost with its disk, as you force it: ${lost}`);
  report(`${untold}. Tell it on another host: flynn host remove ${hostId} --yes`);
}

/** For people, what would be lost with this host's disk for all that can be told; nothing where nothing would. */
function holdingsText({ volumes, silence, hasBlobs, hasMember, hasPlatform }: Omit<Holdings, 'isAlone'>): string[] {
  return [
    ...(volumes === undefined ? [`whatever is on its volumes (${silence})`] : []),
    ...(volumes === undefined || volumes.length === 0
      ? []
      : [`what apps keep on its volumes: ${volumesText(volumes)}`]),
    ...(hasBlobs ? ['slugs and layers, if it alone has them'] : []),
    ...(hasMember ? ['its member of the store, without which there may be no majority any more'] : []),
    ...(hasPlatform ? ['what the host that keeps the platform has'] : []),
  ];
}
