/** What the platform takes of memory at rest, of a cluster of one host and of each that joins it. */
import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';
import { memoryByPart, settle } from './probe.ts';

async function benchFootprint(cluster: TestCluster): Promise<Figure[]> {
  await cluster.upFirst();
  await settle(cluster);
  const alone = await memoryOf(cluster, [cluster.host], 'alone');
  await cluster.joinOthers();
  await cluster.untilHealthy();
  await settle(cluster, [...cluster.hosts]);
  const together = await memoryOf(cluster, cluster.hosts, 'of three');
  const extra = (together.megabytes - alone.megabytes) / (cluster.hosts.length - 1);
  return [
    ...alone.parts,
    figure({ name: 'one host', value: alone.megabytes, unit: 'MB', must: '<= 500 MB' }),
    ...together.parts,
    figure({ name: 'each further host', value: extra, unit: 'MB', must: '<= 150 MB' }),
  ];
}

async function memoryOf(
  cluster: TestCluster,
  hosts: TestCluster['hosts'],
  what: string,
): Promise<{ parts: Figure[]; megabytes: number }> {
  const parts: Figure[] = [];
  for (const host of hosts) {
    for (const { name, megabytes } of await memoryByPart(cluster, host)) {
      parts.push(figure({ name: `${host.name} ${what}: ${name}`, value: megabytes, unit: 'MB' }));
    }
  }
  return { parts, megabytes: parts.reduce((sum, { value }) => sum + value, 0) };
}

export const bench: Bench = { needs: 'prepared hosts', run: benchFootprint };
