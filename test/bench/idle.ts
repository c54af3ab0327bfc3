import type { TestCluster } from '../test-cluster.ts';
import { memoryByPart, settle } from './probe.ts';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';

/** Memory of the whole platform at rest: every process of the cluster but the sample app's and the engine's own, as PSS. */
async function benchIdle(cluster: TestCluster): Promise<Figure[]> {
  await settle(cluster);
  const rows = await memoryByPart(cluster);
  const total = rows.reduce((sum, row) => sum + row.megabytes, 0);
  return [
    ...rows.map((row) => figure({ name: row.name, value: row.megabytes, unit: 'MB' as const })),
    figure({ name: 'platform at rest', value: total, unit: 'MB', must: '<= 600 MB' }),
  ];
}

export const bench: Bench = { needs: 'cluster', run: benchIdle };
