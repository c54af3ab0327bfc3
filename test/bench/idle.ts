import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import type { Figure } from './figure.ts';
import { figuresOf, memoryAtRest } from './memory.ts';
import { settle } from './probe.ts';

/** Memory of one host's platform at rest: the first half of `footprint`. */
async function benchIdle(cluster: TestCluster): Promise<Figure[]> {
  await settle(cluster);
  const atRest = await memoryAtRest(cluster, [cluster.host]);
  return [...atRest].flatMap(([host, parts]) => figuresOf(host, parts, '<= 500 MB'));
}

export const bench: Bench = { needs: 'cluster', run: benchIdle };
