/** How often schedulers get in each other's way: a run on virtual time, the same for the same options. */
import { hostRecordSchema } from '../cell.ts';
import type { HostRecord } from '../cell.ts';
import { Simulation } from './simulation.ts';

export type ConflictOptions = Readonly<{
  hosts: number;
  schedulers: number;
  /** How full the cell is when counting begins, 0 to 1. */
  fill: number;
  /** Workloads of one job each, per second, while counting. */
  perSecond: number;
  seed: number;
}>;

export type ConflictCounts = Readonly<{
  transactions: number;
  placements: number;
  /** Hosts and plans that stood in the way of a transaction. */
  conflicts: number;
  perTransaction: number;
  /** Against how many placements one is lost: what a conflict costs. */
  perPlacement: number;
}>;

const mebibyte = 2 ** 20;
const jobsPerHost = 20;
const resources = { memoryBytes: 100 * mebibyte, cpuMillis: 100 };
/** Of the cell's places, how many are taken while counting. */
const countedShare = 0.05;

export function measureConflicts(options: ConflictOptions): ConflictCounts {
  const { hosts, schedulers, fill, perSecond, seed } = options;
  const world = new Simulation({ seed, hosts: Array.from({ length: hosts }, (_, at) => hostOf(at)), schedulers });
  const template = { image: { name: 'a' }, resources };
  const places = hosts * jobsPerHost;
  const perWorkload = 50;
  const filled = Math.round((places * fill) / perWorkload) * perWorkload;
  for (let n = 0; n < filled / perWorkload; n += 1) {
    const workload = { id: `base${n}`, kind: 'ephemeral', count: perWorkload, version: 'v1', template };
    world.after(n, () => world.change(workload));
  }
  world.runUntil(() => world.counts.placements === filled && world.isQuiet(), 120_000);
  const before = world.counts;
  const counted = Math.round(places * countedShare);
  for (let n = 0; n < counted; n += 1) {
    const workload = { id: `w${n}`, kind: 'ephemeral', count: 1, version: 'v1', template };
    world.after((n * 1_000) / perSecond, () => world.change(workload));
  }
  world.runUntil(() => world.counts.placements === filled + counted && world.isQuiet(), 120_000);
  const conflicts = world.counts.conflicts - before.conflicts;
  const transactions = world.counts.transactions - before.transactions;
  const perTransaction = conflicts / transactions;
  return { transactions, placements: counted, conflicts, perTransaction, perPlacement: conflicts / counted };
}

function hostOf(at: number): HostRecord {
  return hostRecordSchema.parse({
    id: `h${at}`,
    address: '192.0.2.1',
    apiPort: 1113,
    startedAt: 0,
    capacity: { memoryBytes: jobsPerHost * resources.memoryBytes, cpuMillis: jobsPerHost * resources.cpuMillis },
  });
}
