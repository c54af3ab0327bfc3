/** Three hosts that have Debian's packages, their engines and, the first, the images: a command on each, to a cluster. */
import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { figure, timeSeconds, type Figure } from './figure.ts';

async function benchBootstrap(cluster: TestCluster): Promise<Figure[]> {
  const first = await timeSeconds(() => cluster.upFirst());
  const others = await timeSeconds(() => cluster.joinOthers());
  const answers = await timeSeconds(() => cluster.untilHealthy());
  return [
    figure({ name: 'three prepared hosts to a cluster', value: first + others + answers, unit: 's', must: '<= 180 s' }),
    figure({ name: 'of it the first', value: first, unit: 's' }),
    figure({ name: 'the others, at once, until etcd has three members', value: others, unit: 's' }),
    figure({ name: 'until an app answers at each', value: answers, unit: 's' }),
  ];
}

export const bench: Bench = { needs: 'prepared hosts', run: benchBootstrap };
