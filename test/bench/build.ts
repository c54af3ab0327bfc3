import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { type Figure, figure, median } from './figure.ts';
import { installByHand } from './probe.ts';

type BuildJob = { startedAt?: string; endedAt?: string };

/**
 * The Express app built again with its cache there, from the start of the builder's container to its end, against `npm ci` alone
 * with a cache of its own in the same image.
 */
async function benchBuild(cluster: TestCluster): Promise<Figure[]> {
  const app = await cluster.checkout('express', 'built');
  await app.push();
  const byHand: number[] = [];
  const again: number[] = [];
  for (let round = 0; round < 3; round++) {
    byHand.push(await installByHand(cluster, app.directory));
    await app.write('server.js', `${await app.read('server.js')}\n// round ${round}\n`);
    await app.commit('one line');
    await app.push();
    again.push(await lastBuildSeconds(cluster, app.name));
  }
  const must = '<= 1.5 x';
  return [figure({ name: 'second build', value: median(again), unit: 's', floor: median(byHand), must })];
}

async function lastBuildSeconds(cluster: TestCluster, app: string): Promise<number> {
  const { stdout } = await cluster.flynn(['-a', app, 'ps', '--all', '--type', 'build', '--json']);
  const ended = (JSON.parse(stdout) as BuildJob[]).flatMap(({ startedAt, endedAt }) =>
    startedAt === undefined || endedAt === undefined
      ? []
      : [{ startedAt: Date.parse(startedAt), endedAt: Date.parse(endedAt) }],
  );
  const last = ended.toSorted((a, b) => b.endedAt - a.endedAt)[0];
  return last === undefined ? Number.NaN : (last.endedAt - last.startedAt) / 1_000;
}

export const bench: Bench = { needs: 'cluster', run: benchBuild };
