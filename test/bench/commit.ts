/** The commit path alone: how many placements a second a store takes durably, and what each costs, by members and batch. */
import type { Bench } from './bench.ts';
import { startEtcdMembers } from './etcd-members.ts';
import { figure } from './figure.ts';
import type { Figure } from './figure.ts';
import { placeLargeCell } from './large-cell.ts';

/** Small workloads are committed many at a time, large ones in few parts: both have to be quick. */
const shapes = [
  { name: 'workloads of 1 job', workloads: 2_000, jobsPerWorkload: 1, hosts: 1_000, kind: 'ephemeral' },
  { name: 'workloads of 20 jobs', workloads: 1_000, jobsPerWorkload: 20, hosts: 1_000, kind: 'ephemeral' },
  { name: 'workloads of 1,000 jobs', workloads: 100, jobsPerWorkload: 1_000, hosts: 1_000, kind: 'ephemeral' },
] as const;

export const bench: Bench = {
  needs: 'nothing',
  run: async () => {
    const figures: Figure[] = [];
    for (const count of [1, 3] as const) {
      for (const { name, ...cell } of shapes) {
        await using members = await startEtcdMembers(count);
        const result = await placeLargeCell(members, cell);
        const what = `${count} etcd member${count === 1 ? '' : 's'}, ${name}`;
        const must = count === 1 ? '>= 10000 (aim 100000)' : '>= 5000 (aim 50000)';
        const isLarge = cell.jobsPerWorkload === 1_000;
        const rate = { name: `placements, ${what}`, value: result.placed / result.seconds, unit: '/s' as const };
        figures.push(figure(isLarge ? { ...rate, must } : rate));
        const perPlacement = (seconds: number) => (seconds * 1e6) / result.placed;
        figures.push(
          figure({ name: `client CPU each, ${what}`, value: perPlacement(result.clientCpuSeconds), unit: 'us' }),
        );
        figures.push(
          figure({ name: `etcd CPU each, ${what}`, value: perPlacement(result.serverCpuSeconds), unit: 'us' }),
        );
      }
    }
    return figures;
  },
};
