/** Does anybody lead the controller's worker, and for long enough to get anything done? */
import type { Found } from '@flynn/host-agent/doctor/finding';
import { leaderKey } from '@flynn/resource/lease';
import type { Store } from '@flynn/store/store';
import { workerSeat } from '../worker-seat.ts';

/** The term of whoever has the seat, undefined where nobody has. */
export type Term = number | undefined;

/** As many looks in a row without a term that lasted from one to the next. */
const looksWithoutTerm = 4;

export async function readTerm(store: Pick<Store, 'get'>, signal: AbortSignal): Promise<Term> {
  return (await store.get(leaderKey(workerSeat), { signal }))?.createRevision;
}

/** What is remembered of the looks, the last one last. */
export function notedTerms(before: readonly Term[], term: Term): Term[] {
  return [...before, term].slice(-looksWithoutTerm);
}

/** Of looks a minute apart. Pure. A seat is empty for seconds when its worker is replaced, and another's from then on. */
export function seatFindings(terms: readonly Term[]): Found[] {
  const isEmpty = terms.length > 1 && terms.slice(-2).every((term) => term === undefined);
  const isBrief =
    terms.length === looksWithoutTerm && terms.every((term, at) => term === undefined || term !== terms[at - 1]);
  if (!isEmpty && !isBrief) return [];
  return [
    {
      severity: 'critical',
      subject: 'the controller’s worker',
      what: isEmpty ? 'nobody leads it' : 'whoever leads it does not do so for long',
      why: 'deployments and deletions stand still, and nothing is backed up or cleaned up',
      remedy: 'flynn -a controller ps; flynn -a controller log -t worker',
    },
  ];
}
