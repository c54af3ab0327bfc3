/** Which workloads does a change of the cell concern, and which waiting ones may it help? */
import type { Relief } from './blocked.ts';
import type { CellChange } from './cell-change.ts';
import type { HostRecord, OperatorSettings } from './cell.ts';
import type { Cell } from './cell-view.ts';
import type { Cause } from './evaluations.ts';
import { attributesOf, failedConstraint, isOpen } from './feasible.ts';
import { isLeftToOmni } from './drain.ts';

export type Trigger = Readonly<{ workloadId: string; cause: Cause }>;

/**
 * What evaluations nobody else asks for: a change of a workload and the end of a job come with theirs. One per workload
 * that has jobs on the host and is concerned, and one per omni workload that matches it.
 *
 * INVARIANT. A workload that is remembered as settled has no job of another version, none on a host it has to leave and
 * no slot with two, as long as neither the workload nor any host changes and nobody asks for a rebalance.
 */
export class Triggers {
  readonly #cell: Cell;
  /** By workload, the revision at which it was found to be settled: looking is as expensive as it has jobs. */
  readonly #settled = new Map<string, number>();

  constructor(cell: Cell) {
    this.#cell = cell;
  }

  /** The cell has the change already. Workloads that are awaited anyway need not be looked at: that may be expensive. */
  of(change: CellChange, isAwaited: (workloadId: string) => boolean = () => false): Trigger[] {
    switch (change.kind) {
      case 'host':
        return this.#ofHost(change.hostId, change.before, change.after);
      case 'settings':
        return this.#ofSettings(change.hostId, change.before, change.after);
      case 'status':
        return this.#ofStatus(change, isAwaited);
      case 'workload':
        this.#settled.delete(change.workloadId);
        return [];
      case 'evaluation':
        if (change.after?.cause === 'rebalance') this.#settled.delete(change.after.workloadId);
        return [];
      case 'claim':
        return [];
      default:
        return change satisfies never;
    }
  }

  /** A host was given up: one per workload that had jobs there. */
  ofLoss(hostId: string): Trigger[] {
    return this.#onHost(hostId).map((workloadId) => ({ workloadId, cause: 'host_lost' }));
  }

  #ofHost(hostId: string, before: HostRecord | undefined, after: HostRecord | undefined): Trigger[] {
    if (after === undefined || (before !== undefined && isSameHost(before, after))) return [];
    this.#settled.clear();
    const cause = before === undefined ? 'host_joined' : 'host_changed';
    return this.#both(hostId, cause);
  }

  #ofSettings(hostId: string, before: OperatorSettings | undefined, after: OperatorSettings | undefined): Trigger[] {
    if (JSON.stringify(before ?? {}) === JSON.stringify(after ?? {})) return [];
    this.#settled.clear();
    const isDraining = JSON.stringify(before?.drain) !== JSON.stringify(after?.drain);
    return this.#both(hostId, isDraining ? 'drain' : 'host_changed');
  }

  /** During an update or a move the next step depends on how the new jobs are; ends are the host's to tell, by an evaluation. */
  #ofStatus(
    { hostId, workloadId, before, after }: Extract<CellChange, { kind: 'status' }>,
    isAwaited: (workloadId: string) => boolean,
  ): Trigger[] {
    if (after === undefined || before?.state === after.state) return [];
    if (after.isFinal && this.#cell.settings.get(hostId)?.drain !== undefined && isLeftToOmni(hostId, this.#cell)) {
      return this.#onHost(hostId)
        .filter((id) => id !== workloadId && this.#cell.workload(id)?.value.kind === 'omni')
        .map((id) => ({ workloadId: id, cause: 'drain' }));
    }
    if (after.state !== 'running' && before?.state !== 'running') return [];
    return isAwaited(workloadId) || this.#isSettled(workloadId) ? [] : [{ workloadId, cause: 'health' }];
  }

  #isSettled(workloadId: string): boolean {
    const workload = this.#cell.workload(workloadId);
    if (workload === undefined || workload.value.kind === 'ephemeral') return true;
    if (this.#settled.get(workloadId) === workload.modRevision) return true;
    const { version, constraints, kind } = workload.value;
    const slots = new Set<number>();
    const isUnsettled = this.#cell.jobsOf(workloadId).some((job) => {
      if (job.version !== version || (kind !== 'omni' && slots.has(job.index))) return true;
      slots.add(job.index);
      const settings = this.#cell.settings.get(job.hostId);
      if (settings?.drain !== undefined) return true;
      const host = this.#cell.hosts.get(job.hostId)?.value;
      if (host === undefined || constraints.length === 0) return false;
      return failedConstraint(job.hostId, attributesOf(host, settings), constraints) !== undefined;
    });
    if (!isUnsettled) this.#settled.set(workloadId, workload.modRevision);
    return !isUnsettled;
  }

  #both(hostId: string, cause: Cause): Trigger[] {
    const concerned = new Set(this.#onHost(hostId));
    const host = this.#cell.hosts.get(hostId)?.value;
    if (host !== undefined) {
      const attributes = attributesOf(host, this.#cell.settings.get(hostId));
      for (const workloadId of this.#cell.omniWorkloadIds()) {
        const workload = this.#cell.workload(workloadId)?.value;
        if (workload === undefined) continue;
        if (failedConstraint(hostId, attributes, workload.constraints) === undefined) concerned.add(workloadId);
      }
    }
    return [...concerned].map((workloadId) => ({ workloadId, cause }));
  }

  #onHost(hostId: string): string[] {
    return [...new Set(this.#cell.jobsOn(hostId).map(({ workloadId }) => workloadId))].sort();
  }
}

/** What a change makes better, for the evaluations that wait. `free` of the host is for the caller to add. */
export function reliefOf(change: CellChange, cell: Cell): Omit<Relief, 'free'> | undefined {
  if (change.kind !== 'host' && change.kind !== 'settings' && change.kind !== 'claim' && change.kind !== 'status') {
    return undefined;
  }
  const kind = reliefKind(change);
  return kind === undefined ? undefined : reliefOn(change.hostId, kind, cell);
}

/** The same of a host where something got better. */
export function reliefOn(hostId: string, kind: Relief['kind'], cell: Cell): Omit<Relief, 'free'> | undefined {
  const host = cell.hosts.get(hostId)?.value;
  const settings = cell.settings.get(hostId);
  if (host === undefined || !isOpen(host, settings)) return undefined;
  return { hostId, attributes: attributesOf(host, settings), kind, revision: cell.revision };
}

function reliefKind(change: Extract<CellChange, { hostId: string }>): Relief['kind'] | undefined {
  switch (change.kind) {
    case 'host':
      return change.before !== undefined && change.after !== undefined && isSameHost(change.before, change.after)
        ? undefined
        : 'opened';
    case 'settings':
      return 'opened';
    case 'claim': {
      const { before, after } = change;
      if (before === undefined) return undefined;
      const hasShrunk =
        (after?.memoryBytes ?? 0) < before.memoryBytes ||
        (after?.cpuMillis ?? 0) < before.cpuMillis ||
        (after?.jobs ?? 0) < before.jobs;
      return hasShrunk ? 'freed' : undefined;
    }
    case 'status':
      return change.after?.isFinal === true && change.before?.isFinal !== true ? 'ended' : undefined;
    default:
      return change satisfies never;
  }
}

function isSameHost(a: HostRecord, b: HostRecord): boolean {
  return (
    a.cordoned === b.cordoned &&
    a.capacity.memoryBytes === b.capacity.memoryBytes &&
    a.capacity.cpuMillis === b.capacity.cpuMillis &&
    JSON.stringify(a.attributes) === JSON.stringify(b.attributes)
  );
}
