/** For tests of the committer: one on a store of its own, beside what it goes by. */
/** What becomes of plans between the planner and the store, whatever the store answers. */
import { openTestStore } from '@flynn/store/testing';
import type { Operation, Store } from '@flynn/store/store';
import assert from 'node:assert/strict';
import { cellKeys } from './cell.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { Committer } from './committer.ts';
import type { CommitterOptions } from './committer.ts';
import { advance, makeEvaluation, workloadChange } from './evaluations.ts';
import { findViolations } from './invariants.ts';
import { Ledger } from './ledger.ts';
import { HostTable } from './placement/host-table.ts';
import type { Plan } from './plan.ts';
import { schedule } from './schedulers/scheduler.ts';
import { hostOf, hostPut, mebibyte, readCell, workloadInputOf } from './testing.ts';

let ids = 0;
export const newId = () => `id${(ids += 1)}`;
export const context = () => ({ now: 1, newId });

/** One scheduler's hands: what it knows, and how it commits. */
export async function open(store: Store, options: Partial<CommitterOptions> = {}) {
  const cell = await readCell(store);
  const ledger = new Ledger(new HostTable());
  for (const { value } of cell.hosts.values()) ledger.putHost(value, undefined);
  for (const [hostId, { value, modRevision }] of cell.claims) {
    ledger.observe(hostId, { claim: value, modRevision, seenAt: cell.revision });
  }
  const committer = new Committer({ columns: cell, ledger, newId, lingerMs: 0, ...options });
  const plan = (id: string): Plan => {
    const known = cell.evaluationsOf(id).at(-1)?.value ?? makeEvaluation(id, 'repair', context());
    const asked = known.state === 'blocked' ? advance(known, 'pending', 1) : known;
    const made = schedule(asked, cell, { ...context(), random: () => 0.5, lostHosts: new Set(), table: ledger.table });
    committer.submit(made, 0);
    return made;
  };
  const next = () => {
    const batch = committer.next(0);
    assert.ok(batch !== undefined, 'there is nothing to send');
    return batch;
  };
  return { cell, ledger, committer, plan, next };
}

export async function openCell(hosts: readonly string[], workloads: readonly Parameters<typeof workloadInputOf>[0][]) {
  const store = openTestStore();
  const puts: Operation[] = hosts.map((id) => hostPut(hostOf(id)));
  await store.transact({
    then: [...puts, ...workloads.flatMap((one) => workloadChange(workloadInputOf(one), context()))],
  });
  return store;
}

/** Made on a cell where the host is the only one that is not lost. */
export function planOn({ cell }: Awaited<ReturnType<typeof open>>, hostId: string, lost: readonly string[] = []): Plan {
  const lostHosts = new Set([...lost, ...[...cell.hosts.keys()].filter((id) => id !== hostId)]);
  const table = new HostTable();
  for (const { value } of cell.hosts.values()) if (!lostHosts.has(value.id)) table.put({ ...value, isOpen: true });
  const evaluation = makeEvaluation('db', 'repair', context());
  return schedule(evaluation, cell, { ...context(), random: () => 0.5, lostHosts, table });
}

export const used = ({ table }: Ledger, hostId: string) =>
  table.usedOf(table.indexOf(hostId) ?? -1).memoryBytes / mebibyte;
export const stateOf = (cell: CellColumns) => findViolations(cell);

export async function disturb(store: Store, hostId: string): Promise<void> {
  const key = cellKeys.claim(hostId);
  const entry = await store.get(key);
  const claim = entry === undefined ? { memoryBytes: 0, cpuMillis: 0, jobs: 0, ports: {} } : JSON.parse(entry.value);
  await store.transact({ then: [{ put: key, value: JSON.stringify({ ...claim, planId: 'other' }) }] });
}

export async function commitAll({ committer }: Awaited<ReturnType<typeof open>>, store: Store) {
  for (let batch = committer.next(0); batch !== undefined; batch = committer.next(0)) {
    committer.settle(batch, await store.transact(batch.transaction));
  }
  return committer.takeSettled().map(({ state }) => state);
}

/** One on each host, all of them ended. */
