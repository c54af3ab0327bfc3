/** Which blobs of a history are missing, since when, and which are given up? Pure. */
import type { HistoryStatus, Missing, Piece } from './types.ts';

/** Asked after so often, none is collected (collection/blob-collection.ts). */
const lookEveryMs = 3_600_000;
const missingEveryMs = 5 * 60_000;
/** Whoever cannot read one asks for a look at all of them: not more often. */
const leastPauseMs = 60_000;
/** Hosts that have it may be away, and a cluster comes up host by host. */
const lostMs = 3_600_000;
const lostTimes = 10;
/** Nobody looked for longer: what was said before says nothing. */
const mostApartMs = 3 * missingEveryMs;

/** Unknown: it could not be asked. */
export type Answer = 'there' | 'gone' | 'unknown';
type Looked = NonNullable<HistoryStatus['looked']>;
type Lost = Pick<Piece, 'digest' | 'isLost' | 'isDamaged'>;

/** After a look. What could not be asked begins anew. */
export function lookedAt(
  before: Looked | undefined,
  answers: ReadonlyMap<string, Answer>,
  { begunMs, nowMs }: Readonly<{ begunMs: number; nowMs: number }>,
): Looked {
  const known = new Map(before?.missing.map((one) => [one.digest, one]));
  const missing = [...answers].flatMap(([digest, answer]): Missing[] => {
    if (answer !== 'gone') return [];
    const last = known.get(digest);
    const isAlso = last !== undefined && last.seenMs <= nowMs && nowMs - last.seenMs <= mostApartMs;
    return [
      isAlso
        ? { ...last, seenMs: nowMs, times: last.times + 1 }
        : { ...last, digest, sinceMs: nowMs, seenMs: nowMs, times: 1 },
    ];
  });
  // What somebody could not read meanwhile is for the next look.
  const since = [...known.values()].filter(
    ({ digest, seenMs, times }) => times === 1 && seenMs >= begunMs && answers.get(digest) !== 'gone',
  );
  return looked([...missing, ...since], nowMs, [...answers.values()].includes('unknown'));
}

/** Whoever needs it could not read it. */
export function withUnread(
  before: Looked | undefined,
  { digest, isDamaged }: Pick<Missing, 'digest' | 'isDamaged'>,
  nowMs: number,
): Looked {
  const { atMs = 0, missing = [] } = before ?? {};
  if (before !== undefined && missing.some((one) => one.digest === digest)) return before;
  const one = { digest, sinceMs: nowMs, seenMs: nowMs, times: 1, ...(isDamaged === true ? { isDamaged } : {}) };
  return { atMs, nextMs: Math.max(nowMs, Math.min(nowMs, atMs) + leastPauseMs), missing: [...missing, one] };
}

/** Those that are given up are not missing any more. */
export function givenUp({ atMs, missing }: Looked): { lost: Missing[]; looked: Looked } {
  const isLost = ({ sinceMs, times }: Missing): boolean => atMs - sinceMs >= lostMs && times >= lostTimes;
  const left = missing.filter((one) => !isLost(one));
  return { lost: missing.filter(isLost), looked: looked(left, atMs) };
}

/** With those as lost, and without those that were found. The same if nothing is another. */
export function withLost<Of extends Lost>(
  parts: readonly Of[],
  lost: readonly Missing[],
  answers: ReadonlyMap<string, Answer> = new Map(),
): Of[] {
  return parts.map((one) => {
    const gone = lost.find(({ digest }) => digest === one.digest);
    if (gone !== undefined) return { ...one, isLost: true, ...(gone.isDamaged === true ? { isDamaged: true } : {}) };
    if (one.isLost !== true || one.isDamaged === true || answers.get(one.digest) !== 'there') return one;
    return { ...one, isLost: undefined };
  });
}

function looked(missing: Missing[], atMs: number, isUnsure = false): Looked {
  return { atMs, nextMs: atMs + (missing.length > 0 || isUnsure ? missingEveryMs : lookEveryMs), missing };
}
