/** Which volumes do apps have on hosts? Each host is asked; those that do not answer in time are named. */
import { createHash } from 'node:crypto';
import type { HostVolume } from '@flynn/host-agent/volumes/api';
import { messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import type { Deps } from '../deps.ts';
import { iso } from '../jobs/views.ts';
import { appType } from '../resources.ts';
import type { VolumeView, Volumes } from './api.ts';
import { ownVolumeOf } from './names.ts';

/** Somebody waits for the answer of all of them. */
const askMs = 5_000;

/** A volume with what its host calls it. */
export type FoundVolume = VolumeView & { hostName: string };

export type FoundVolumes = { volumes: FoundVolume[]; unasked: Volumes['unasked'] };

/** By app, type, name and host. What the platform's own apps keep is not among them: they never go. */
export async function findVolumes(
  deps: Pick<Deps, 'resources' | 'cell' | 'hosts'>,
  options: { appId?: string | undefined; sizes?: boolean | undefined; signal: AbortSignal },
): Promise<FoundVolumes> {
  const { signal, appId, sizes = false } = options;
  const hostIds = knownHosts(deps);
  const limited = withDeadline(askMs, signal);
  const answers = await Promise.allSettled(
    hostIds.map((hostId) => deps.hosts.volumes(hostId, { sizes, signal: limited })),
  );
  signal.throwIfAborted();
  // After the hosts: an app that was made meanwhile is no app that is gone.
  const names = new Map((await deps.resources.list(appType, { signal })).map(({ id, spec }) => [id, spec.name]));
  const found: FoundVolumes = { volumes: [], unasked: [] };
  for (const [index, answer] of answers.entries()) {
    const hostId = hostIds[index] ?? '';
    if (answer.status === 'rejected') found.unasked.push({ hostId, reason: messageOf(answer.reason) });
    else found.volumes.push(...answer.value.flatMap((one) => viewVolume(one, hostId, names)));
  }
  if (appId !== undefined) found.volumes = found.volumes.filter((one) => one.appId === appId);
  found.volumes.sort((a, b) => (orderOf(a) < orderOf(b) ? -1 : 1));
  return found;
}

/** Those that are there, and those that left a claim: what a host that is away keeps is kept. */
function knownHosts({ cell }: Pick<Deps, 'cell'>): string[] {
  const ids = [cell.hosts, cell.claims].flatMap(({ snapshot }) => snapshot.entries.keys().toArray());
  return [...new Set(ids)].toSorted();
}

function viewVolume(
  { name: hostName, meta, createdAtMs, jobs, bytes }: HostVolume,
  hostId: string,
  names: ReadonlyMap<string, string>,
): FoundVolume[] {
  const own = ownVolumeOf(hostName);
  if (own === undefined) return [];
  const appName = names.get(own.appId) ?? meta['flynn.app_name'];
  return [
    {
      id: volumeIdOf(hostId, hostName),
      ...own,
      ...(appName === undefined ? {} : { appName }),
      isAppGone: !names.has(own.appId),
      hostId,
      createdAt: iso(createdAtMs),
      jobs,
      bytes,
      hostName,
    },
  ];
}

function volumeIdOf(hostId: string, hostName: string): string {
  return createHash('sha256').update(`${hostId}/${hostName}`).digest('hex').slice(0, 12);
}

function orderOf({ appName = '', appId, type, name, hostId }: VolumeView): string {
  return [appName, appId, type, name, hostId].join('\0');
}

/** Without what is between the controller and the host. */
export function viewOf(volume: FoundVolume): VolumeView {
  const { hostName: _, ...view } = volume;
  return view;
}
