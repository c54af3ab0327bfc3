/** One or three etcd members on loopback, for benches: containers of the platform's own image. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { FlynnError } from '@flynn/kit/errors';
import { freePort } from '@flynn/kit/testing-ports';
import { waitFor } from '@flynn/kit/retry';
import { testLabel } from '@flynn/kit/testing-label';
import { ensureTestImages } from '../images.ts';

const run = promisify(execFile);

const dataOf = {
  // A volume of its own on the engine's disk, removed with the container: not the layers of its file system.
  disk: ['--volume=/member'],
  memory: ['--tmpfs=/member:size=4g'],
} as const;
const syncOf = { disk: [], memory: ['--unsafe-no-fsync'] } as const;

export interface EtcdMembers extends AsyncDisposable {
  readonly endpoints: readonly string[];
  /** CPU the members have used so far, in seconds. */
  cpuSeconds(): Promise<number>;
  /** How long a sync of the log to disk has taken on the average, in milliseconds: next to nothing where there is none. */
  syncMilliseconds(): Promise<number>;
}

/** `disk`: every write is synced to this machine's disk, as in production. `memory`: to none, what is measured is the CPU. */
export type Durability = 'disk' | 'memory';

/** Resolves when each serves. */
export async function startEtcdMembers(count: 1 | 3, durability: Durability): Promise<EtcdMembers> {
  const image = process.env['FLYNN_TEST_ETCD_IMAGE'] ?? (await ensureTestImages())['FLYNN_TEST_ETCD_IMAGE'];
  if (image === undefined) throw new FlynnError('unavailable', 'there is no image of etcd');
  const members = await Promise.all(
    Array.from({ length: count }, async (_, at) => ({
      name: `m${at}`,
      port: await freePort(),
      peer: await freePort(),
    })),
  );
  const cluster = members.map(({ name, peer }) => `${name}=http://127.0.0.1:${peer}`).join(',');
  const containers = await Promise.all(
    members.map(async ({ name, port, peer }) => {
      const docker = ['run', '--detach', `--label=${testLabel}`, '--network=host', ...dataOf[durability]];
      const addresses = {
        'listen-client-urls': `http://127.0.0.1:${port}`,
        'advertise-client-urls': `http://127.0.0.1:${port}`,
        'listen-peer-urls': `http://127.0.0.1:${peer}`,
        'initial-advertise-peer-urls': `http://127.0.0.1:${peer}`,
        'initial-cluster': cluster,
      };
      const limits = ['--max-txn-ops=1024', '--max-request-bytes=8388608', '--quota-backend-bytes=4294967296'];
      const etcd = [`--name=${name}`, ...syncOf[durability], '--data-dir=/member/data', '--log-level=error', ...limits];
      const options = Object.entries(addresses).map(([option, value]) => `--${option}=${value}`);
      const { stdout } = await run('docker', [...docker, '--entrypoint=etcd', image, ...etcd, ...options]);
      return stdout.trim();
    }),
  );
  const endpoints = members.map(({ port }) => `http://127.0.0.1:${port}`);
  const stop = async () => {
    await run('docker', ['rm', '--force', '--volumes', ...containers], { timeout: 60_000 });
  };
  try {
    for (const endpoint of endpoints) {
      await waitFor(() => isHealthy(endpoint), { what: `etcd at ${endpoint}`, deadlineMs: 30_000 });
    }
  } catch (error) {
    await stop();
    throw error;
  }
  return {
    endpoints,
    cpuSeconds: async () => {
      const used = await Promise.all(endpoints.map((endpoint) => metricOf(endpoint, 'process_cpu_seconds_total')));
      return used.reduce((sum, one) => sum + one, 0);
    },
    syncMilliseconds: async () => {
      const [endpoint = ''] = endpoints;
      const seconds = await metricOf(endpoint, 'etcd_disk_wal_fsync_duration_seconds_sum');
      return (1_000 * seconds) / (await metricOf(endpoint, 'etcd_disk_wal_fsync_duration_seconds_count'));
    },
    [Symbol.asyncDispose]: stop,
  };
}

async function metricOf(endpoint: string, name: string): Promise<number> {
  const response = await fetch(`${endpoint}/metrics`, { signal: AbortSignal.timeout(5_000) });
  const line = (await response.text()).split('\n').find((one) => one.startsWith(`${name} `));
  return Number(line?.slice(name.length));
}

async function isHealthy(endpoint: string): Promise<boolean> {
  const response = await fetch(`${endpoint}/health`, { signal: AbortSignal.timeout(1_000) });
  return /"health":\s*"true"/.test(await response.text());
}
