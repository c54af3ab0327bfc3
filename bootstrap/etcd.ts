/** The store of the control plane, as a job the host agent runs without being told by it. */
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { ResidentInput } from '@flynn/host-agent/resident';
import { writeFileAtomic } from '@flynn/kit/files';
import { type Cluster, gatewayOf } from './settings.ts';

export const etcdPorts = { client: 2379, peer: 2380 } as const;

const mebibyte = 1024 ** 2;

/** It listens on the bridge's address only: the machine's own network has no business with it. */
export function etcdResident(cluster: Cluster, image: string): ResidentInput {
  const gateway = gatewayOf(cluster.subnet);
  const client = `http://${gateway}:${etcdPorts.client}`;
  const peer = `http://${gateway}:${etcdPorts.peer}`;
  const flags = {
    name: cluster.hostId,
    'data-dir': '/data',
    'listen-client-urls': client,
    'advertise-client-urls': client,
    'listen-peer-urls': peer,
    'initial-advertise-peer-urls': peer,
    'initial-cluster': `${cluster.hostId}=${peer}`,
    'initial-cluster-token': cluster.name,
    // Watchers that were away longer than this list anew.
    'auto-compaction-mode': 'periodic',
    'auto-compaction-retention': '30m',
    'quota-backend-bytes': String(2048 * mebibyte),
    // Fewer entries kept in memory; the default of 100,000 is most of what an idle etcd takes.
    'snapshot-count': '10000',
    'max-txn-ops': '1024',
    'max-request-bytes': String(8 * mebibyte),
    'log-level': 'warn',
  };
  return {
    name: 'etcd',
    template: {
      image: { name: image },
      command: Object.entries(flags).map(([name, value]) => `--${name}=${value}`),
      volumes: [{ name: 'etcd', path: '/data' }],
      hostNetwork: true,
      resources: { memoryBytes: 768 * mebibyte, cpuMillis: 500 },
      env: { GOMEMLIMIT: `${384 * mebibyte}` },
    },
  };
}

/** The agent takes it up by itself. */
export async function writeResident(stateDir: string, resident: ResidentInput): Promise<void> {
  const folder = join(stateDir, 'resident');
  await mkdir(folder, { recursive: true, mode: 0o700 });
  await writeFileAtomic(join(folder, `${resident.name}.json`), `${JSON.stringify(resident, undefined, 2)}\n`);
}
