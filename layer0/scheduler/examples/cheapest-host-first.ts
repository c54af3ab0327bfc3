/**
 * An example of a scheduler of your own: jobs of the kind `cheapest` go to the host with the lowest `price` (a tag or an
 * attribute: a number), and what has none comes last. Load it with `loadSchedulers(['/path/to/cheapest-host-first.ts'])`.
 *
 * What should run is the service's to decide; only where it runs is decided here. That is all most schedulers need.
 */
import { chooseMany } from '../placement/choose.ts';
import type { HostTable } from '../placement/host-table.ts';
import type { HostShare, PlaceRequest } from '../placement/request.ts';
import { makePlan } from '../place.ts';
import { inputOf } from '../schedulers/input.ts';
import type { Scheduler } from '../schedulers/scheduler.ts';
import { reconcileService } from '../slots.ts';

export const kind = 'cheapest';

export const schedule: Scheduler['schedule'] = (evaluation, workload, cell, context) => {
  const decision = reconcileService(workload, inputOf(workload, cell, context));
  return makePlan({ evaluation, workload, decision, policy: 'pack', choose: chooseCheapest }, cell, context);
};

/**
 * Hosts of one price are filled before the next price is looked at; `chooseMany` sees to constraints, room and ports. What has
 * been chosen counts as there the next time: by a `distinct` constraint it may rule out hosts of other prices.
 */
function chooseCheapest(table: HostTable, request: PlaceRequest, count: number): HostShare[] {
  const hosts = hostsOf(table);
  const byPrice = Map.groupBy(hosts, (index) => priceOf(table, index));
  const same = new Map(request.same);
  const shares: HostShare[] = [];
  let left = count;
  for (const price of [...byPrice.keys()].sort((a, b) => a - b)) {
    if (left === 0) break;
    const exclude = new Set(hosts.filter((index) => priceOf(table, index) !== price));
    for (const share of chooseMany(table, { ...request, same, exclude }, left)) {
      shares.push(share);
      same.set(share.index, (same.get(share.index) ?? 0) + share.count);
      left -= share.count;
    }
  }
  return shares;
}

function hostsOf(table: HostTable): number[] {
  return Array.from({ length: table.end }, (_, index) => index).filter((index) => table.idOf(index) !== undefined);
}

function priceOf(table: HostTable, index: number): number {
  const price = Number(table.valueOf(index, 'price') ?? Number.NaN);
  return Number.isNaN(price) ? Infinity : price;
}
