/** What is claimed of each host by this scheduler's best knowledge: the store's claims, and what is on its way there. */
import type { Revision } from '@flynn/store/store';
import type { Claim, HostRecord, OperatorSettings } from './cell.ts';
import type { HostChange } from './plan.ts';
import type { HostTable } from './placement/host-table.ts';

/** `seenAt`: the store had this claim at that revision. modRevision 0: there is none. */
export type KnownClaim = Readonly<{ claim: Claim | undefined; modRevision: Revision; seenAt: Revision }>;

const unknown: KnownClaim = Object.freeze({ claim: undefined, modRevision: 0, seenAt: 0 });
const nobody: Claim = Object.freeze({ planId: '', memoryBytes: 0, cpuMillis: 0, jobs: 0, ports: {} });

/**
 * INVARIANTS. A host's use in the table is its newest known claim with every held change added, however plans, commits and
 * the watch follow each other. A claim never goes back to one seen earlier.
 */
export class Ledger {
  readonly table: HostTable;
  readonly #claims = new Map<string, KnownClaim>();
  readonly #held = new Map<string, readonly HostChange[]>();

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

  /** What the store said at that revision: by the watch, or in the answer to a refused transaction. */
  observe(hostId: string, known: KnownClaim): void {
    if (known.seenAt < this.claimOf(hostId).seenAt) return;
    this.#claims.set(hostId, known);
    this.refresh(hostId);
  }

  /** The plan has claimed it in the table by now. */
  hold(hostId: string, change: HostChange): void {
    this.#held.set(hostId, [...(this.#held.get(hostId) ?? []), change]);
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
  }

  /** Brings the table's row in line, whatever was claimed in it meanwhile. */
  refresh(hostId: string): void {
    const index = this.table.indexOf(hostId);
    if (index === undefined) return;
    let claim = this.claimOf(hostId).claim ?? nobody;
    for (const change of this.#held.get(hostId) ?? []) claim = claimWith(claim, change, claim.planId);
    this.table.setUsed(index, claim);
  }

  #letGo(hostId: string, change: HostChange): void {
    const left = (this.#held.get(hostId) ?? []).filter((one) => one !== change);
    if (left.length === 0) this.#held.delete(hostId);
    else this.#held.set(hostId, left);
  }
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
