/** What the platform takes of memory at rest, of a cluster of one host and of each that joins it. */
import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';
import { countedOf, figuresOf, memoryAtRest } from './memory.ts';
import { settle } from './probe.ts';

async function benchFootprint(cluster: TestCluster): Promise<Figure[]> {
  await cluster.upFirst();
  await settle(cluster);
  const alone = await memoryAtRest(cluster, [cluster.host]);
  await cluster.joinOthers();
  await cluster.untilHealthy();
  await settle(cluster, [...cluster.hosts]);
  const together = await memoryAtRest(cluster, cluster.hosts);
  const one = countedOf([...alone.values()].flat());
  const all = countedOf([...together.values()].flat());
  return [
    ...[...alone].flatMap(([host, parts]) => figuresOf(`${host} alone`, parts)),
    ...[...together].flatMap(([host, parts]) => figuresOf(`${host} of three`, parts)),
    figure({ name: 'one host', value: one, unit: 'MB', must: '<= 500 MB' }),
    figure({
      name: 'each further host',
      value: (all - one) / (cluster.hosts.length - 1),
      unit: 'MB',
      must: '<= 150 MB',
    }),
  ];
}

export const bench: Bench = { needs: 'prepared hosts', run: benchFootprint };
