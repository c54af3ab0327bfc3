/** Of the hosts a job fits on, which is the best? */
import type { Room } from './feasible.ts';

export type Candidate = Readonly<{
  room: Room;
  /** Jobs of the same workload there, planned ones included. */
  sameWorkload: number;
  /** The same in the host's zone. */
  sameZone: number;
  /** How often the workload's version failed there lately. */
  failures: number;
  isPreferred: boolean;
}>;

export type Rank = (candidates: readonly Candidate[], random: () => number) => Candidate | undefined;

/**
 * Spread, then pack: where the slot was before, where it has not failed, in the emptiest zone, on the host with the
 * fewest of its kind; among equals the fullest, which leaves large gaps for large jobs.
 */
export const rankService: Rank = (candidates) =>
  best(
    candidates,
    (a, b) =>
      Number(b.isPreferred) - Number(a.isPreferred) ||
      a.failures - b.failures ||
      a.sameZone - b.sameZone ||
      a.sameWorkload - b.sameWorkload ||
      b.room.fill - a.room.fill ||
      compareIds(a, b),
  );

/** Two choices: of two random hosts the emptier. Schedulers that plan at the same time rarely meet on one host. */
export const rankEphemeral: Rank = (candidates, random) => {
  if (candidates.length <= 2) return best(candidates, compareFill);
  const first = Math.floor(random() * candidates.length);
  const second = (first + 1 + Math.floor(random() * (candidates.length - 1))) % candidates.length;
  return best(
    [candidates[first], candidates[second]].filter((one) => one !== undefined),
    compareFill,
  );
};

function compareFill(a: Candidate, b: Candidate): number {
  return a.room.fill - b.room.fill || a.room.jobCount - b.room.jobCount || compareIds(a, b);
}

function compareIds(a: Candidate, b: Candidate): number {
  return a.room.host.id < b.room.host.id ? -1 : 1;
}

function best(
  candidates: readonly Candidate[],
  compare: (a: Candidate, b: Candidate) => number,
): Candidate | undefined {
  let winner: Candidate | undefined;
  for (const candidate of candidates) {
    if (winner === undefined || compare(candidate, winner) < 0) winner = candidate;
  }
  return winner;
}
