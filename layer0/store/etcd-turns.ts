/** How is one thing asked of several members, of which any may hang? In turn, and of the next before the last gave up. */
import { abortError } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { backoffMs } from '@flynn/kit/retry';
import type { EtcdMembers, Member } from './etcd-members.ts';
import { isFaultOfMember, translateError } from './etcd-wire.ts';

export type Pace = Readonly<{
  /** So long without an answer, and the next member is asked as well; undefined: one at a time. */
  stepMs?: number;
  /** The longest pause after a member that failed. */
  maxPauseMs: number;
  /** So long without an answer when another has given one, and a member counts as failed. */
  silentMs: number;
}>;

export type Turns<T> = {
  members: Pick<EtcdMembers, 'order' | 'failed' | 'answered'>;
  /** For errors: "reading /a". */
  what: string;
  /** Gives up by itself. With steps it may be under way at several members, and twice at one: it has to be idempotent. */
  ask: (member: Member) => Promise<T>;
  /** Of performance.now(): from then on nobody is asked any more. */
  untilMs: number;
  pace: Pace;
  /** Whether another turn may mend it. */
  canRepeat: (error: FlynnError) => boolean;
  signal: AbortSignal;
};

/** Who is asked with less time than that to answer is not heard. */
const leastMs = 50;

type Turn = { member: Member; sentMs: number; isSilent: boolean };

/**
 * The first answer is the answer. Turns under way by then run on to their own ends: only so is a member that hangs known,
 * and one that is merely slow not taken for it.
 */
export function askInTurn<T>(turns: Turns<T>): Promise<T> {
  const { members, what, pace, untilMs, signal } = turns;
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const pending = new Set<Turn>();
  const taken = new Map<string, number>();
  let count = 0;
  let hasEnded = false;
  let isAnswered = false;
  let next: NodeJS.Timeout | undefined;
  /** What a member said last, rather than that it said nothing. */
  let said: FlynnError | undefined;

  const end = () => {
    hasEnded = true;
    clearTimeout(next);
    signal.removeEventListener('abort', abort);
  };
  const abort = () => {
    end();
    reject(abortError(signal));
  };
  const plan = (ms: number) => {
    clearTimeout(next);
    next = performance.now() + ms + leastMs < untilMs ? setTimeout(takeTurn, ms) : undefined;
  };
  const tellSilent = ({ member, sentMs }: Turn) =>
    members.failed(member, new FlynnError('timeout', `${what}: ${member.endpoint} did not answer`), sentMs);

  const answered = (turn: Turn, answer: T) => {
    members.answered(turn.member);
    isAnswered = true;
    if (hasEnded) return;
    end();
    for (const other of pending) if (other.isSilent) tellSilent(other);
    resolve(answer);
  };
  const failed = (turn: Turn, error: FlynnError) => {
    if (isFaultOfMember(error)) members.failed(turn.member, error, turn.sentMs);
    if (hasEnded) return;
    if (error.code !== 'timeout') said = error;
    const canRepeat = turns.canRepeat(error);
    if (canRepeat) plan(backoffMs(count - 1, { minMs: 50, maxMs: pace.maxPauseMs }));
    if (canRepeat && (next !== undefined || pending.size > 0)) return;
    end();
    // The last turn may have been short. Of what may be done once its silence is told all the same: it may have been done.
    reject(pace.stepMs === undefined ? error : (said ?? error));
  };

  function takeTurn(): void {
    const turn: Turn = { member: fewestTurns(members.order(), taken), sentMs: performance.now(), isSilent: false };
    const { endpoint } = turn.member;
    taken.set(endpoint, (taken.get(endpoint) ?? 0) + 1);
    count += 1;
    pending.add(turn);
    const silence = setTimeout(() => {
      turn.isSilent = true;
      if (isAnswered) tellSilent(turn);
    }, pace.silentMs);
    const settle = () => {
      clearTimeout(silence);
      pending.delete(turn);
    };
    if (pace.stepMs !== undefined) plan(pace.stepMs);
    void turns.ask(turn.member).then(
      (answer) => {
        settle();
        answered(turn, answer);
      },
      (error: unknown) => {
        settle();
        failed(turn, translateError(error, what));
      },
    );
  }

  if (signal.aborted) return Promise.reject(abortError(signal));
  signal.addEventListener('abort', abort, { once: true });
  takeTurn();
  return promise;
}

/** The best of those that were asked least. */
function fewestTurns(members: readonly [Member, ...Member[]], taken: ReadonlyMap<string, number>): Member {
  const turnsOf = ({ endpoint }: Member) => taken.get(endpoint) ?? 0;
  return members.reduce((best, member) => (turnsOf(member) < turnsOf(best) ? member : best));
}
