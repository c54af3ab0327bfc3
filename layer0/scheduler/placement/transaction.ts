/**
 * Transactions on shared state: schedulers plan on private copies of the columns, and the state decides what holds.
 *
 * Two ways to see a conflict: the host's sequence number is not the one that was planned on (anything may have changed),
 * or it just does not fit any more. Two ways to take it: the other claims hold, or none does.
 */
import type { Columns } from './columns.ts';

export type ConflictMode = 'sequence_numbers' | 'resource_fit';
export type TransactionMode = 'incremental' | 'all_or_nothing';
export type CommitMode = Readonly<{ conflict: ConflictMode; transaction: TransactionMode }>;

/** `count` tasks of one size on a host, with the sequence number its private copy had just before. */
export type HostClaim = Readonly<{ index: number; memory: number; cpu: number; count: number; sequence: number }>;

export type CommitResult = Readonly<{
  accepted: readonly HostClaim[];
  /** Claims that were tried and do not hold: those that conflict, and what was rolled back with them. */
  refused: readonly HostClaim[];
}>;

/** Claims in a private copy; what it returns is for `commit`. */
export function claimIn(columns: Columns, index: number, memory: number, cpu: number, count = 1): HostClaim {
  const claim = { index, memory, cpu, count, sequence: columns.sequence[index] ?? 0 };
  columns.claim(index, memory, cpu, count);
  return claim;
}

/**
 * Claims are tried in order, each on what the ones before left; with `all_or_nothing` the first conflict ends it. A
 * roll-back gives back what was taken but not the sequence numbers.
 */
export function commit(columns: Columns, claims: readonly HostClaim[], mode: CommitMode): CommitResult {
  const accepted: HostClaim[] = [];
  const refused: HostClaim[] = [];
  for (const claim of claims) {
    const { index, memory, cpu, count } = claim;
    if (!isConflict[mode.conflict](columns, claim)) {
      columns.claim(index, memory, cpu, count);
      accepted.push(claim);
      continue;
    }
    refused.push(claim);
    if (mode.transaction === 'all_or_nothing') {
      for (const taken of accepted) columns.release(taken.index, taken.memory, taken.cpu, taken.count);
      return { accepted: [], refused: [...accepted, claim] };
    }
  }
  return { accepted, refused };
}

const isConflict: Readonly<Record<ConflictMode, (columns: Columns, claim: HostClaim) => boolean>> = {
  sequence_numbers: (columns, { index, sequence }) => columns.sequence[index] !== sequence,
  resource_fit: (columns, { index, memory, cpu, count }) => !columns.fits(index, memory, cpu, count),
};
