/** Taking this host out of a cluster that goes on without it. */
import { knownEndpoints } from '@flynn/host-agent/cluster/membership';
import { memberKey } from '@flynn/host-agent/cluster/member-keys';
import { releaseSubnet } from '@flynn/host-agent/cluster/subnets';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import type { Store } from '@flynn/store/store';
import { leasesOf } from './admission.ts';
import { withStore } from './controller.ts';
import type { Cluster } from './settings.ts';

const reachMs = 10_000;
/** etcd's members change one at a time, each once it has caught up. */
const memberMs = 60_000;

type Leaving = { stateDir: string; cluster: Cluster; isForced: boolean };

/**
 * Answers what is to be told. The last host just goes. With others there the one that made the cluster stays, unless
 * forced: the platform's own data is on it.
 */
export async function leaveCluster({ stateDir, cluster, isForced }: Leaving): Promise<string[]> {
  const host = { stateDir, cluster, log: silentLogger() };
  try {
    return await withStore(host, (store) => leave(store, cluster, isForced));
  } catch (error) {
    if (!hasCode(error, 'unavailable', 'timeout')) throw error;
    if (cluster.hasPlatform) {
      const members = await knownEndpoints(stateDir, []);
      if (members.length <= 1 || isForced) return [];
      throw new FlynnError(
        'unavailable',
        `the cluster does not answer (${messageOf(error)}), and other hosts are in it: this one has the platform's data. Bring them up, or take this one down all the same with npm run down -- --force`,
        { cause: error },
      );
    }
    return [
      `The cluster cannot be told (${messageOf(error)}). Tell it on another host: flynn host remove ${cluster.hostId}`,
    ];
  }
}

async function leave(store: Store, cluster: Cluster, isForced: boolean): Promise<string[]> {
  const { hostId } = cluster;
  const limits = { signal: AbortSignal.timeout(reachMs) };
  await store.get(memberKey(hostId), limits);
  const others = (await leasesOf(store)).map((lease) => lease.hostId).filter((id) => id !== hostId);
  if (others.length === 0) return [];
  if (cluster.hasPlatform && !isForced) {
    throw new FlynnError(
      'conflict',
      `other hosts are in this cluster: ${others.join(', ')}. The platform's data (sources, slugs) is on this one: take the others down first, or this one all the same with npm run down -- --force`,
    );
  }
  await releaseSubnet(store, hostId);
  try {
    await waitFor(async () => (await store.get(memberKey(hostId))) === undefined, {
      what: `etcd to go on without ${hostId}`,
      deadlineMs: memberMs,
      intervalMs: 500,
    });
  } catch (error) {
    if (!hasCode(error, 'timeout')) throw error;
    return [`etcd still counts ${hostId} as a member: it has no majority, or its other members are away`];
  }
  return [`${hostId} left the cluster; ${others.length} ${others.length === 1 ? 'host goes' : 'hosts go'} on`];
}
