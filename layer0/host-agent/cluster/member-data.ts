/** What earlier members of etcd on this host left in the engine. */
import { hasCode } from '@flynn/kit/errors';
import type { Engine } from '../engine/engine.ts';
import { volumeName } from '../engine/labels.ts';
import { isEtcdVolume } from './etcd-resident.ts';

/** Volumes of members but for those kept. One still in use by a container that is about to end goes the next time. */
export async function removeMemberData(
  engine: Pick<Engine, 'listVolumes' | 'removeVolume'>,
  { cluster, kept, signal }: { cluster: string; kept: readonly string[]; signal: AbortSignal },
): Promise<void> {
  const prefix = volumeName(cluster, '');
  for (const { name: full } of await engine.listVolumes({ signal })) {
    const name = full.startsWith(prefix) ? full.slice(prefix.length) : '';
    if (!isEtcdVolume(name) || kept.includes(name)) continue;
    try {
      await engine.removeVolume(full, { signal });
    } catch (error) {
      if (!hasCode(error, 'conflict')) throw error;
    }
  }
}
