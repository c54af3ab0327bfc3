/**
 * The commit path alone: how many placements a second a store takes durably, and what each costs, by members and batch.
 * `commit [disk|memory]`: one of the two only.
 */
import type { Bench } from './bench.ts';
import { startEtcdMembers } from './etcd-members.ts';
import type { Durability } from './etcd-members.ts';
import { figure } from './figure.ts';
import type { Figure } from './figure.ts';
import { placeLargeCell } from './large-cell.ts';

/** Small workloads are committed many at a time, large ones in few parts: both have to be quick. */
const shapes = [
  { name: '2,000 workloads of 1 job', workloads: 2_000, jobsPerWorkload: 1, hosts: 1_000, kind: 'ephemeral' },
  { name: '1,000 workloads of 20 jobs', workloads: 1_000, jobsPerWorkload: 20, hosts: 1_000, kind: 'ephemeral' },
  { name: '10 workloads of 1,000 jobs', workloads: 10, jobsPerWorkload: 1_000, hosts: 1_000, kind: 'ephemeral' },
] as const;
const stores: Readonly<Record<Durability, string>> = {
  disk: 'durable (synced to disk)',
  memory: 'not durable (no sync, memory)',
};
const musts = { 1: '>= 10000 (aim 100000)', 3: '>= 5000 (aim 50000)' } as const;

export const bench: Bench = {
  needs: 'nothing',
  run: async (wanted) => {
    const figures: Figure[] = [];
    for (const durability of ['disk', 'memory'] as const) {
      if (wanted.length > 0 && !wanted.includes(durability)) continue;
      for (const count of [1, 3] as const) {
        for (const shape of shapes) figures.push(...(await measure(durability, count, shape)));
      }
    }
    return figures;
  },
};

async function measure(
  durability: Durability,
  count: 1 | 3,
  { name, ...cell }: (typeof shapes)[number],
): Promise<Figure[]> {
  await using members = await startEtcdMembers(count, durability);
  const result = await placeLargeCell(members, cell);
  const syncMs = await members.syncMilliseconds();
  const what = `${stores[durability]}, ${count} etcd member${count === 1 ? '' : 's'}, ${name}`;
  const must = durability === 'disk' && cell.jobsPerWorkload > 1 ? { must: musts[count] } : {};
  const perPlacement = (seconds: number) => (seconds * 1e6) / result.placed;
  return [
    figure({ name: `placements, ${what}`, value: result.placed / result.seconds, unit: '/s', ...must }),
    figure({ name: `client CPU each, ${what}`, value: perPlacement(result.clientCpuSeconds), unit: 'us' }),
    figure({ name: `etcd CPU each, ${what}`, value: perPlacement(result.serverCpuSeconds), unit: 'us' }),
    figure({ name: `placements a transaction, ${what}`, value: result.placed / result.transactions, unit: '' }),
    figure({ name: `a sync of etcd's log, ${what}`, value: syncMs, unit: 'ms' }),
  ];
}
