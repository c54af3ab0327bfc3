/** Where the cluster is by now, for a host that knows only where it was: as the hosts that a token names tell. */
import { agentClient } from '@flynn/host-agent/agent-client';
import { parseToken } from '@flynn/host-agent/cluster/join';
import { type ClusterExamination, doctorRoutes } from '@flynn/host-agent/doctor/api';
import { readHostIdentity } from '@flynn/host-agent/trust/host-trust';
import { messageOf } from '@flynn/kit/errors';
import type { Cluster } from '../settings.ts';

const agentPort = 1113;
const patienceMs = 5_000;
const callMs = 10_000;

export type AskHost = (address: string) => Promise<Pick<ClusterExamination, 'etcd' | 'hosts'>>;

/** As one of its hosts: it has their key, and shows its certificate. */
export function askingAs(stateDir: string, { key }: Pick<Cluster, 'key'>): AskHost {
  return async (address) => {
    const identity = await readHostIdentity(stateDir);
    const place = { id: '', address, apiPort: agentPort, mutual: { withoutIdentity: 0 } };
    await using client = agentClient(place, { key, identity });
    return await client.call(doctorRoutes.cluster, { query: { patienceMs } }, { timeoutMs: callMs });
  };
}

/**
 * With the members of etcd and the hosts there are, as the first host tells that has a store. Where none does the cluster is as it
 * was known, and `failures` say why: what is known may still be right.
 */
export async function withWhereabouts(
  token: string,
  cluster: Cluster,
  ask: AskHost,
): Promise<{ cluster: Cluster; failures: readonly string[] }> {
  const failures: string[] = [];
  for (const address of parseToken(token).addresses.filter((one) => one !== cluster.address)) {
    try {
      const { etcd, hosts } = await ask(address);
      if (etcd.some(({ isHealthy }) => isHealthy)) return { cluster: at(cluster, { etcd, hosts }), failures: [] };
      failures.push(`${address}: no member of etcd answers it`);
    } catch (error) {
      failures.push(`${address}: ${messageOf(error)}`);
    }
  }
  return { cluster, failures };
}

function at(cluster: Cluster, { etcd, hosts }: Pick<ClusterExamination, 'etcd' | 'hosts'>): Cluster {
  const peers = hosts.flatMap(({ id, address }) => (id === cluster.hostId || address === undefined ? [] : [address]));
  // Of one that found no others when it came, which is how it is known that it made the cluster, that is kept.
  return {
    ...cluster,
    etcdEndpoints: etcd.map(({ endpoint }) => endpoint),
    peers: cluster.peers.length === 0 ? [] : peers,
  };
}

/** For people. */
export function whereaboutsText(failures: readonly string[]): string {
  if (failures.length === 0) return '';
  return `This machine is a host of the cluster already, and no host of the token tells where the others are by now:\n${failures
    .map((line) => `  ${line}\n`)
    .join('')}Going on with where they were.\n`;
}
