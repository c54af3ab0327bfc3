/** What apps keep on this host, and so would lose with its disk: the platform's own is on other hosts, too, or is made again. */
import { volumeRoutes } from '@flynn/host-agent/volumes/api';
import { formatBytes } from '@flynn/host-agent/cli/format';
import { ownVolumeOf } from '@flynn/controller/volumes/names';
import { type Place, ownHost, withAgent } from '../update/host-move.ts';

const askMs = 10_000;

/** `app`: its name, or its id where that is not known. */
export type KeptVolume = Readonly<{ app: string; type: string; name: string; bytes: number | undefined }>;

/** As the agent of this host knows them; `unavailable` or `timeout` where it does not answer. */
export async function keptVolumes(place: Place): Promise<KeptVolume[]> {
  const own = await ownHost(place);
  const all = await withAgent(place, own, (client) =>
    client.call(volumeRoutes.list, { query: { sizes: true } }, { timeoutMs: askMs }),
  );
  return all.flatMap(({ name: hostName, meta, bytes }): KeptVolume[] => {
    const volume = ownVolumeOf(hostName);
    if (volume === undefined) return [];
    const { appId, type, name } = volume;
    return [{ app: meta['flynn.app_name'] ?? appId, type, name, bytes }];
  });
}

/** For people, the largest first. */
export function volumesText(volumes: readonly KeptVolume[]): string {
  return volumes
    .toSorted((a, b) => (b.bytes ?? 0) - (a.bytes ?? 0))
    .map(({ app, type, name, bytes }) => {
      const size = bytes === undefined ? '' : ` (${formatBytes(bytes)})`;
      return `${name} of ${app} ${type}${size}`;
    })
    .join(', ');
}
