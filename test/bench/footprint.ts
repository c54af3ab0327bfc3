/** What the platform takes of memory at rest: of a cluster of one host, of each that joins it, and of one without a router. */
import { waitFor } from '@flynn/kit/retry';
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
  const worker = cluster.hosts.at(-1) ?? cluster.host;
  await cluster.flynn(['host', 'tag', worker.name, 'router=no']);
  await waitFor(async () => (await cluster.containers('router', 'web', worker)).length === 0, {
    what: 'its router to go',
    deadlineMs: 60_000,
    intervalMs: 500,
  });
  const parts = (await memoryAtRest(cluster, [worker])).get(worker.name) ?? [];
  const one = countedOf([...alone.values()].flat());
  const all = countedOf([...together.values()].flat());
  return [
    ...[...alone].flatMap(([host, parts]) => figuresOf(`${host} alone`, parts)),
    ...figuresOf(`${worker.name} as a worker host`, parts),
    ...[...together].flatMap(([host, parts]) => figuresOf(`${host} of four`, parts)),
    figure({ name: 'one host', value: one, unit: 'MB', must: '<= 500 MB' }),
    figure({
      name: 'each further host',
      value: (all - one) / (cluster.hosts.length - 1),
      unit: 'MB',
      must: '<= 150 MB',
    }),
    figure({ name: 'a worker host', value: countedOf(parts), unit: 'MB', must: '<= 150 MB' }),
  ];
}

export const bench: Bench = { needs: 'prepared hosts', hosts: 4, run: benchFootprint };
