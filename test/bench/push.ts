import type { TestCluster } from '../test-cluster.ts';
import { compileByHand } from './probe.ts';
import type { Bench } from './bench.ts';
import { figure, median, timeSeconds, type Figure } from './figure.ts';

/**
 * The Express app pushed for the first time, against `npm ci` and `npm prune` of the same source by hand in the same image;
 * then pushed again with one line changed, where the compile has nothing left to do.
 */
async function benchPush(cluster: TestCluster): Promise<Figure[]> {
  const first: number[] = [];
  const byHand: number[] = [];
  const again: number[] = [];
  for (let round = 0; round < 3; round++) {
    const app = await cluster.checkout('express', `bench${round}`);
    byHand.push(await compileByHand(cluster, app.directory));
    first.push(await timeSeconds(() => app.push()));
    await app.write('server.js', `${await app.read('server.js')}\n// round ${round}\n`);
    await app.commit('one line');
    again.push(await timeSeconds(() => app.push()));
  }
  return [
    figure({ name: 'first push', value: median(first), unit: 's', floor: median(byHand) }),
    figure({ name: 'first push, overhead', value: median(first) - median(byHand), unit: 's', must: '<= 5 s' }),
    figure({ name: 'push of a changed line', value: median(again), unit: 's', must: '<= 5 s' }),
  ];
}

export const bench: Bench = { needs: 'cluster', run: benchPush };
