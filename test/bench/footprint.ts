/**
 * What the platform takes of memory at rest: of a cluster of one host, of each that joins it, and of one without a router. Three of
 * all hosts have etcd and three the blobs, whichever these are: of the rest, without them, there are as many as one likes.
 */
import { waitFor } from '@flynn/kit/retry';
import type { TestCluster } from '../test-cluster.ts';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';
import { countedOf, figuresOf, memoryAtRest, type Part } from './memory.ts';
import { settle } from './probe.ts';

async function benchFootprint(cluster: TestCluster): Promise<Figure[]> {
  await cluster.upFirst();
  await settle(cluster);
  const alone = await memoryAtRest(cluster, [cluster.host]);
  await cluster.joinOthers();
  await cluster.untilHealthy();
  await settle(cluster, [...cluster.hosts]);
  const together = await memoryAtRest(cluster, cluster.hosts);
  const worker = cluster.hosts.find(({ name }) => !partsOf(together, name).some(isEtcd)) ?? cluster.host;
  await cluster.flynn(['host', 'tag', worker.name, 'router=no']);
  await waitFor(async () => (await cluster.containers('router', 'web', worker)).length === 0, {
    what: 'its router to go',
    deadlineMs: 60_000,
    intervalMs: 500,
  });
  const parts = partsOf(await memoryAtRest(cluster, [worker]), worker.name);
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
    figure({
      name: 'a further host without etcd and blobs',
      value: withoutState(partsOf(together, worker.name)),
      unit: 'MB',
      must: '<= 150 MB',
    }),
    figure({ name: 'the same without a router', value: withoutState(parts), unit: 'MB', must: '<= 150 MB' }),
  ];
}

function partsOf(hosts: ReadonlyMap<string, Part[]>, name: string): Part[] {
  return hosts.get(name) ?? [];
}

const isEtcd = ({ name }: Part): boolean => name.endsWith('resident-etcd');

function withoutState(parts: readonly Part[]): number {
  return countedOf(parts.filter((part) => !isEtcd(part) && !part.name.startsWith('blobstore ')));
}

export const bench: Bench = { needs: 'prepared hosts', hosts: 4, run: benchFootprint };
