/** Hosts, demands and numbers for this folder's tests. */
import type { Demand } from '../cell.ts';
import { Lcg } from '../omega/lcg.ts';
import { HostTable, type HostSpec } from './host-table.ts';
import type { PlaceRequest, Policy } from './request.ts';

const mebibyte = 2 ** 20;
export const policies: readonly Policy[] = ['pack', 'spread', 'two_choices'];

export function randomOf(seed: number): () => number {
  const lcg = new Lcg(seed);
  return () => lcg.next();
}

export function demandOf(more: Partial<Demand> = {}): Demand {
  return { memoryBytes: 100 * mebibyte, cpuMillis: 100, hostPorts: [], family: 'web', volumes: [], ...more };
}

export function hostOf(id: string, more: Partial<HostSpec> = {}): HostSpec {
  return { id, capacity: { memoryBytes: 1_000 * mebibyte, cpuMillis: 1_000 }, attributes: {}, isOpen: true, ...more };
}

export function tableOf(hosts: readonly HostSpec[]): HostTable {
  const table = new HostTable(4);
  for (const host of hosts) table.put(host);
  return table;
}

/** Hosts in zones a, b, c in turn. */
export function zoned(count: number, more: Partial<HostSpec> = {}): HostSpec[] {
  return Array.from({ length: count }, (_, at) =>
    hostOf(`h${at}`, { attributes: { zone: 'abc'[at % 3] ?? '' }, ...more }),
  );
}

export function requestOf(more: Partial<PlaceRequest> = {}): PlaceRequest {
  return { policy: 'pack', demand: demandOf(), random: randomOf(1), ...more };
}
