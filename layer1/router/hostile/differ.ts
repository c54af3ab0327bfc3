/** Do we and another reader split a message the same way? */
import type { Opinion, Taken } from './judge.ts';

export type Difference =
  /** We passed something on that the other would have split otherwise: a hole. */
  | 'split'
  /** The other refuses, or ends the connection before, what we passed on: not as strict as it, and no hole by itself. */
  | 'laxer';

/** Undefined when both agree, or when we took less of it than the other and said so or ended the connection. */
export function difference(ours: Opinion, theirs: Opinion): Difference | undefined {
  const onlyOurs = without(ours.requests, theirs.requests);
  const onlyTheirs = without(theirs.requests, ours.requests);
  if (onlyOurs.length > 0) return theirs.end !== 'waiting' && onlyTheirs.length === 0 ? 'laxer' : 'split';
  if (onlyTheirs.length > 0) return ours.end === 'waiting' ? 'split' : undefined;
  return undefined;
}

function without(all: readonly Taken[], others: readonly Taken[]): string[] {
  const left = others.map((each) => JSON.stringify(each));
  return all
    .map((each) => JSON.stringify(each))
    .filter((each) => {
      const at = left.indexOf(each);
      if (at >= 0) left.splice(at, 1);
      return at < 0;
    });
}
