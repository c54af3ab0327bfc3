import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { figure, timeSeconds, type Figure } from './figure.ts';

/**
 * `up` on a host whose engine holds nothing, then again. Debian packages and `npm ci` are this machine's already; the floor
 * is what a second `up` after `down --keep-images` would have to do at least: nothing, so there is none.
 */
async function benchUp(cluster: TestCluster): Promise<Figure[]> {
  const blank = await timeSeconds(() => cluster.up({ timeoutMs: 600_000 }));
  const warm = await timeSeconds(() => cluster.up());
  return [
    figure({ name: 'up, blank engine', value: blank, unit: 's', must: '<= 300 s' }),
    figure({ name: 'up again', value: warm, unit: 's', must: '<= 30 s' }),
  ];
}

export const bench: Bench = { needs: 'blank host', run: benchUp };
