/** What the platform takes of memory at rest, of a cluster of one host and of each that joins it. */
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';
import { memoryByPart, settle } from './probe.ts';

/** Processes look for what they can give back every half a minute: with nothing less by then, they are at rest. */
const restMs = 45_000;
const lessShare = 0.02;

async function benchFootprint(cluster: TestCluster): Promise<Figure[]> {
  await cluster.upFirst();
  await settle(cluster);
  const alone = await memoryAtRest(cluster, [cluster.host], 'alone');
  await cluster.joinOthers();
  await cluster.untilHealthy();
  await settle(cluster, [...cluster.hosts]);
  const together = await memoryAtRest(cluster, cluster.hosts, 'of three');
  const extra = (together.megabytes - alone.megabytes) / (cluster.hosts.length - 1);
  return [
    ...alone.parts,
    figure({ name: 'one host', value: alone.megabytes, unit: 'MB', must: '<= 500 MB' }),
    ...together.parts,
    figure({ name: 'each further host', value: extra, unit: 'MB', must: '<= 150 MB' }),
  ];
}

type Memory = { parts: Figure[]; megabytes: number };

async function memoryAtRest(cluster: TestCluster, hosts: TestCluster['hosts'], what: string): Promise<Memory> {
  let least = { atMs: -Infinity, megabytes: Infinity };
  return waitFor(
    async () => {
      const seen = await memoryOf(cluster, hosts, what);
      const atMs = performance.now();
      if (seen.megabytes < least.megabytes * (1 - lessShare)) least = { atMs, megabytes: seen.megabytes };
      return atMs - least.atMs >= restMs ? seen : undefined;
    },
    { what: 'memory to be given back', deadlineMs: 300_000, intervalMs: 5_000 },
  );
}

async function memoryOf(cluster: TestCluster, hosts: TestCluster['hosts'], what: string): Promise<Memory> {
  const parts: Figure[] = [];
  for (const host of hosts) {
    for (const { name, megabytes } of await memoryByPart(cluster, host)) {
      parts.push(figure({ name: `${host.name} ${what}: ${name}`, value: megabytes, unit: 'MB' }));
    }
  }
  return { parts, megabytes: parts.reduce((sum, { value }) => sum + value, 0) };
}

export const bench: Bench = { needs: 'prepared hosts', run: benchFootprint };
