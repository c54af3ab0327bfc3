/**
 * CPU time of one placement in memory, by how many hosts there are, by policy, and by how full they are; `place pipeline`: the
 * whole of it only.
 */
import { FlynnError } from '@flynn/kit/errors';
import { choose, chooseMany } from '@flynn/scheduler/placement/choose';
import { HostTable } from '@flynn/scheduler/placement/host-table';
import { Lcg } from '@flynn/scheduler/omega/lcg';
import type { PlaceRequest, Policy } from '@flynn/scheduler/placement/request';
import type { Bench } from './bench.ts';
import { figure, type Figure } from './figure.ts';
import { pipelineFigures } from './pipeline.ts';

const gibibyte = 2 ** 30;
const hostCounts = [1_000, 10_000];
const policies: readonly Policy[] = ['pack', 'spread', 'two_choices'];
const fills = [0, 0.5, 0.9];
const capacity = { memoryBytes: 96 * gibibyte, cpuMillis: 32_000 };
const zones = ['a', 'b', 'c'];
/** Jobs an evaluation places at a time. */
const batch = 10;
/** Parts of the cell's CPU that are placed while it is measured. */
const measuredPart = 0.05;
const placementsMeasured = 30_000;
/** [thousandths of a core, MiB]; a host runs out of both at about the same time. */
const demands: readonly PlaceRequest['demand'][] = [
  [100, 128],
  [250, 512],
  [500, 1_024],
  [1_000, 2_048],
  [200, 2_048],
].map(([cpuMillis = 0, mebibytes = 0]) => {
  return { cpuMillis, memoryBytes: mebibytes * 2 ** 20, hostPorts: [], family: 'bench', volumes: [] };
});

export const bench: Bench = {
  needs: 'nothing',
  run: async ([part]) => {
    if (part === 'pipeline') return pipelineFigures();
    // The first runs are the compiler's.
    for (const policy of policies) for (const count of [1, batch]) measure(1_000, policy, 0, count);
    const figures = hostCounts.flatMap((hosts) =>
      policies.flatMap((policy) => fills.flatMap((fill) => row(hosts, policy, fill))),
    );
    return [...figures, memory(), ...pipelineFigures()];
  },
};

function row(hosts: number, policy: Policy, fill: number): Figure[] {
  const single = measure(hosts, policy, fill, 1);
  const many = measure(hosts, policy, fill, batch);
  const name = `${hosts} hosts, ${policy}, ${fill * 100} % full`;
  return [
    figure({ name: `${name}: CPU of one placement`, value: single.microseconds, unit: 'us' }),
    figure({
      name: `${name}: placements/s, ${batch} at a time`,
      value: 1_000_000 / many.microseconds,
      unit: '/s',
      must: '>= 300000, aim 2000000',
    }),
    ...(fill === 0 ? [figure({ name: `${name}: hosts used`, value: (100 * many.used) / hosts, unit: '%' })] : []),
  ];
}

/** On a new cell each time, as often as it takes for enough placements. */
function measure(hosts: number, policy: Policy, fill: number, count: number): { microseconds: number; used: number } {
  const lcg = new Lcg(5);
  const random = (): number => lcg.next();
  const cpuOf = (part: number): number => part * hosts * capacity.cpuMillis;
  let placed = 0;
  let microseconds = 0;
  let used = 0;
  while (placed < placementsMeasured) {
    const table = tableOf(hosts);
    placeUpTo(table, { policy: 'two_choices', random, count: 50, cpu: cpuOf(fill) });
    const startedAt = process.cpuUsage();
    placed += placeUpTo(table, { policy, random, count, cpu: cpuOf(measuredPart) });
    const spent = process.cpuUsage(startedAt);
    microseconds += spent.user + spent.system;
    used = Array.from({ length: hosts }, (_, index) => table.columns.fill(index)).filter((part) => part > 0).length;
  }
  return { microseconds: microseconds / placed, used };
}

/** Evaluations of `count` jobs until this much CPU is claimed; how many jobs that were. */
function placeUpTo(
  table: HostTable,
  { policy, random, count, cpu }: { policy: Policy; random: () => number; count: number; cpu: number },
): number {
  let placed = 0;
  for (let claimed = 0; claimed < cpu;) {
    const demand = demands[Math.floor(random() * demands.length)];
    if (demand === undefined) break;
    const before = placed;
    const request = { policy, demand, random, spread: ['zone'] };
    if (count === 1) {
      const index = choose(table, request);
      if (index !== undefined) {
        table.claim(index, demand);
        placed += 1;
      }
    } else {
      for (const share of chooseMany(table, request, count)) {
        table.claim(share.index, demand, share.count);
        placed += share.count;
      }
    }
    if (placed === before) throw new FlynnError('internal', 'the hosts are full before the measurement ends');
    claimed += (placed - before) * demand.cpuMillis;
  }
  return placed;
}

function tableOf(hosts: number): HostTable {
  const table = new HostTable(hosts);
  for (let at = 0; at < hosts; at++) {
    table.put({ id: `h${at}`, capacity, attributes: { zone: zones[at % zones.length] ?? '' }, isOpen: true });
  }
  return table;
}

function memory(): Figure {
  const hosts = 10_000;
  return figure({
    name: `columns of ${hosts} hosts`,
    value: tableOf(hosts).columnBytes / 1e6,
    unit: 'MB',
    must: '<= 2',
  });
}
