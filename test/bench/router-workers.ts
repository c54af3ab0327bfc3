/** What a second worker brings: throughput where cores are free for both, and what it costs each request anywhere. */
import { availableParallelism } from 'node:os';
import { figure, median, type Figure } from './figure.ts';
import { wrk } from './router-load.ts';
import type { Proxy, Stage } from './router-stage.ts';

const tiny = { name: 'tiny', path: '/tiny', connections: 256, must: '' };
/** Two of the load's and the backend's own, or the workers take their cores from them. */
const coresNeeded = 4;

export async function workers(
  stage: Stage,
  { rounds, seconds }: { rounds: number; seconds: number },
): Promise<Figure[]> {
  const one = await stage.startRouter();
  const two = await stage.startRouter({ env: { FLYNN_ROUTER_WORKERS: '2' } });
  const perSecond = new Map<Proxy, number[]>([
    [one, []],
    [two, []],
  ]);
  const costsUs = new Map<Proxy, number[]>([
    [one, []],
    [two, []],
  ]);
  for (const { port } of [one, two]) await wrk(stage, port, tiny, 2);
  for (let round = 0; round < rounds; round += 1) {
    for (const proxy of [one, two]) {
      const before = proxy.cpuSeconds();
      const { requests } = await wrk(stage, proxy.port, tiny, seconds);
      costsUs.get(proxy)?.push(((proxy.cpuSeconds() - before) * 1e6) / requests);
      perSecond.get(proxy)?.push(requests / seconds);
    }
  }
  await Promise.all([one.stop(), two.stop()]);
  const of = (values: Map<Proxy, number[]>, proxy: Proxy) => median(values.get(proxy) ?? []);
  const cores = availableParallelism();
  const must =
    cores < coresNeeded ? `>= 1.7 x (aim 1.9) with ${coresNeeded} cores: here are ${cores}` : '>= 1.7 x (aim 1.9)';
  return [
    figure({
      name: 'two workers, against one',
      value: of(perSecond, two),
      unit: '/s',
      floor: of(perSecond, one),
      must,
    }),
    figure({
      name: 'processor time of a request, two workers',
      value: of(costsUs, two),
      unit: 'us',
      floor: of(costsUs, one),
    }),
    // What sharing costs is the router's; how much of the cores the load and the backend take is not.
    figure({
      name: 'two workers for one, by that: with a core for each',
      value: (2 * of(costsUs, one)) / of(costsUs, two),
      unit: 'x',
      must: '>= 1.7 (aim 1.9)',
    }),
  ];
}
