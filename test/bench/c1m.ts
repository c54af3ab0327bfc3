/**
 * A million jobs on five thousand hosts, written, planned, committed and checked afresh. `c1m KIND WORKLOADS JOBS HOSTS` for
 * others.
 */
import type { Bench } from './bench.ts';
import { startEtcdMembers } from './etcd-members.ts';
import { figure } from './figure.ts';
import { placeLargeCell } from './large-cell.ts';

export const bench: Bench = {
  needs: 'nothing',
  run: async ([kind = 'ephemeral', workloads = '1000', jobs = '1000', hosts = '5000']) => {
    await using members = await startEtcdMembers(1, 'disk');
    const shape = { kind, workloads: Number(workloads), jobsPerWorkload: Number(jobs), hosts: Number(hosts) };
    const result = await placeLargeCell(members, shape);
    const perPlacement = (seconds: number) => (seconds * 1e6) / result.placed;
    return [
      figure({
        name: `${result.placed} jobs on ${hosts} hosts placed and committed`,
        value: result.seconds,
        unit: 's',
        must: '<= 120 (aim 12)',
      }),
      figure({
        name: 'committed placements',
        value: result.placed / result.seconds,
        unit: '/s',
        must: '>= 10000 (aim 100000)',
      }),
      figure({ name: 'client CPU per placement', value: perPlacement(result.clientCpuSeconds), unit: 'us' }),
      figure({ name: 'etcd CPU per placement', value: perPlacement(result.serverCpuSeconds), unit: 'us' }),
      figure({ name: 'placements per transaction', value: result.placed / result.transactions, unit: '' }),
      figure({ name: 'read afresh and verified', value: result.verifySeconds, unit: 's' }),
      figure({ name: 'resident memory of the scheduler', value: result.rssBytes / 2 ** 20, unit: 'MB' }),
    ];
  },
};
