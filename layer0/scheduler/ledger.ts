/** What is claimed of each host by this scheduler's best knowledge: the store's claims, and what is on its way there. */
import type { Revision } from '@flynn/store/store';
import type { AssignedGroup, Claim, HostRecord, OperatorSettings } from './cell.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { hash } from './ownership.ts';
import type { HostChange } from './plan.ts';
import type { HostTable } from './placement/host-table.ts';

/** `seenAt`: the store had this claim at that revision. modRevision 0: there is none. */
export type KnownClaim = Readonly<{ claim: Claim | undefined; modRevision: Revision; seenAt: Revision }>;

/** Below so many hosts spreading matters more than not meeting. */
const homeFrom = 64;
const maxSlices = 16;
const unknown: KnownClaim = Object.freeze({ claim: undefined, modRevision: 0, seenAt: 0 });
const nobody: Claim = Object.freeze({ planId: '', memoryBytes: 0, cpuMillis: 0, jobs: 0, ports: {} });

/**
 * INVARIANTS. A host's use in the table is its newest known claim with every held change added, however plans, commits and
 * the watch follow each other. A claim never goes back to one seen earlier.
 */
export class Ledger {
  readonly table: HostTable;
  readonly #claims = new Map<string, KnownClaim>();
  readonly #held = new Map<string, Held>();
  readonly #sent = new Map<string, Readonly<{ batchId: string; changes: readonly HostChange[] }>>();

  constructor(table: HostTable) {
    this.table = table;
  }

  claimOf(hostId: string): KnownClaim {
    return this.#claims.get(hostId) ?? unknown;
  }

  putHost(host: HostRecord, settings: OperatorSettings | undefined): void {
    this.table.put({
      id: host.id,
      capacity: host.capacity,
      attributes: { ...host.attributes, ...settings?.tags },
      isOpen: !host.cordoned && settings?.cordoned !== true && settings?.drain === undefined,
    });
    this.refresh(host.id);
  }

  removeHost(hostId: string): void {
    this.table.remove(hostId);
  }

  /** As the cell has it now: there or not, open or not. */
  followHost(hostId: string, { hosts, settings }: Pick<CellColumns, 'hosts' | 'settings'>): void {
    const host = hosts.get(hostId)?.value;
    if (host !== undefined) this.putHost(host, settings.get(hostId));
    else this.removeHost(hostId);
  }

  followClaim(hostId: string, { claims, revision }: Pick<CellColumns, 'claims' | 'revision'>): void {
    const known = claims.get(hostId);
    this.observe(hostId, { claim: known?.value, modRevision: known?.modRevision ?? 0, seenAt: revision });
  }

  /** In a large cell each scheduler has a share of the hosts in which it looks for room first: they rarely meet then. */
  setHome(schedulerId: string, peers: readonly string[] | undefined): void {
    const at = peers?.indexOf(schedulerId) ?? (this.table.indexOf(schedulerId) === undefined ? -1 : hash(schedulerId));
    // With one on every host there are enough of them, and whose share is which does not change as hosts come and go.
    const of = Math.min(peers?.length ?? maxSlices, maxSlices);
    if (this.table.size < homeFrom || at < 0) this.table.setHome({ slice: 0, of: 1 });
    else this.table.setHome({ slice: at % of, of });
  }

  /**
   * What the store said at that revision: by the watch, or in the answer to a refused transaction. A claim that a batch on
   * its way wrote has the batch's changes in it, whether its answer is here yet or not.
   */
  observe(hostId: string, known: KnownClaim): void {
    if (known.seenAt < this.claimOf(hostId).seenAt) return;
    this.#claims.set(hostId, known);
    const sent = this.#sent.get(hostId);
    if (sent !== undefined && known.claim?.planId === sent.batchId) {
      for (const change of sent.changes) this.#letGo(hostId, change);
    }
    this.refresh(hostId);
  }

  /** What is held goes to the store now, as this batch: one at a time for a host. */
  send(hostId: string, batchId: string, changes: readonly HostChange[]): void {
    this.#sent.set(hostId, { batchId, changes });
  }

  /** The batch on its way has its answer. */
  land(hostId: string): void {
    this.#sent.delete(hostId);
  }

  /** The plan has claimed it in the table by now. */
  hold(hostId: string, change: HostChange): void {
    const held = this.#held.get(hostId) ?? { changes: new Set(), memoryBytes: 0, cpuMillis: 0 };
    this.#held.set(hostId, held);
    held.changes.add(change);
    shift(held, change, 1);
  }

  /** It will not be committed. */
  drop(hostId: string, change: HostChange): void {
    this.#letGo(hostId, change);
    this.refresh(hostId);
  }

  /** It is committed, and that is the claim now. */
  confirm(hostId: string, changes: readonly HostChange[], known: KnownClaim): void {
    for (const change of changes) this.#letGo(hostId, change);
    this.observe(hostId, known);
    // The watch may have been faster than the answer; what was held is counted no more in either case.
    this.refresh(hostId);
  }

  /** Brings the table's row in line, whatever was claimed in it meanwhile. */
  refresh(hostId: string): void {
    const index = this.table.indexOf(hostId);
    if (index === undefined) return;
    const claim = this.claimOf(hostId).claim ?? nobody;
    const held = this.#held.get(hostId);
    if (held === undefined) return this.table.setUsed(index, claim);
    let { ports } = claim;
    for (const change of held.changes) if (hasPorts(change)) ports = claimWith({ ...claim, ports }, change, '').ports;
    const memoryBytes = claim.memoryBytes + held.memoryBytes;
    return this.table.setUsed(index, { memoryBytes, cpuMillis: claim.cpuMillis + held.cpuMillis, ports });
  }

  #letGo(hostId: string, change: HostChange): void {
    const held = this.#held.get(hostId);
    if (held?.changes.delete(change) !== true) return;
    if (held.changes.size === 0) this.#held.delete(hostId);
    else shift(held, change, -1);
  }
}

/** Changes on their way, and what they come to. */
type Held = { readonly changes: Set<HostChange>; memoryBytes: number; cpuMillis: number };

function shift(held: Held, { add, release }: HostChange, sign: 1 | -1): void {
  for (const { demand, jobs } of add) {
    held.memoryBytes += sign * demand.memoryBytes * jobs.length;
    held.cpuMillis += sign * demand.cpuMillis * jobs.length;
  }
  for (const { demand } of release) {
    held.memoryBytes -= sign * demand.memoryBytes;
    held.cpuMillis -= sign * demand.cpuMillis;
  }
}

function hasPorts({ add, release }: HostChange): boolean {
  return (
    add.some(({ demand }) => demand.hostPorts.length > 0) || release.some(({ demand }) => demand.hostPorts.length > 0)
  );
}

/** The claim after a change. Stopped jobs keep theirs until they ended and are released. */
export function claimWith(claim: Claim | undefined, change: HostChange, planId: string): Claim {
  let { memoryBytes, cpuMillis, jobs } = claim ?? nobody;
  let ports = claim?.ports ?? {};
  for (const { demand, jobs: added } of change.add) {
    memoryBytes += demand.memoryBytes * added.length;
    cpuMillis += demand.cpuMillis * added.length;
    jobs += added.length;
    if (demand.hostPorts.length > 0) ports = portsWith(ports, demand, added.length);
  }
  for (const { demand } of change.release) {
    memoryBytes -= demand.memoryBytes;
    cpuMillis -= demand.cpuMillis;
    jobs -= 1;
    if (demand.hostPorts.length > 0) ports = portsWith(ports, demand, -1);
  }
  return { planId, memoryBytes, cpuMillis, jobs, ports };
}

/** What jobs come to. */
export function claimOf(groups: readonly AssignedGroup[], planId: string): Claim {
  return claimWith(undefined, { add: [...groups], stop: [], release: [] }, planId);
}

/** Whether the one says of its host what the other does, whichever plan wrote it. None is as one without jobs. */
export function areSameSums(one: Claim | undefined, other: Claim): boolean {
  const { memoryBytes, cpuMillis, jobs, ports } = one ?? nobody;
  if (memoryBytes !== other.memoryBytes || cpuMillis !== other.cpuMillis || jobs !== other.jobs) return false;
  const numbers = Object.keys(ports);
  if (numbers.length !== Object.keys(other.ports).length) return false;
  return numbers.every((port) => {
    const [a, b] = [ports[port], other.ports[port]];
    return a?.family === b?.family && a?.jobs === b?.jobs;
  });
}

function portsWith(
  ports: Claim['ports'],
  demand: Readonly<{ hostPorts: readonly number[]; family: string }>,
  jobs: number,
): Claim['ports'] {
  const next = { ...ports };
  for (const port of demand.hostPorts) {
    const held = (next[port]?.jobs ?? 0) + jobs;
    if (held > 0) next[port] = { family: next[port]?.family ?? demand.family, jobs: held };
    else delete next[port];
  }
  return next;
}

/** Whether the host has room for the claim, and each port of the change is its family's. */
export function canHold(host: HostRecord, claim: Claim, change: HostChange): boolean {
  if (claim.memoryBytes > host.capacity.memoryBytes || claim.cpuMillis > host.capacity.cpuMillis) return false;
  return change.add.every(({ demand }) =>
    demand.hostPorts.every((port) => claim.ports[port]?.family === demand.family),
  );
}
