/** Is a write that was not answered yet still waited for? Not once its member hangs, or another leads than when it was sent. */
import { pause } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';

/** Where another leads, what it knows of a write under way is told about as soon as anything is. */
const graceMs = 250;

/** What was heard so long ago says nothing of who leads now. */
const termKnownMs = 3_000;

/** Of the last answer: the term grows with each election. */
export class LeaderNews {
  #term = 0;
  #heardMs = -Infinity;

  heard({ raft_term: term }: { raft_term: string }): void {
    this.#term = Number(term);
    this.#heardMs = performance.now();
  }

  /** undefined where nothing was heard lately. */
  get term(): number | undefined {
    return performance.now() - this.#heardMs < termKnownMs ? this.#term : undefined;
  }
}

export type Doubt = Readonly<{
  /** For errors: "a transaction". */
  what: string;
  /** So long without an answer, and it is doubted. */
  afterMs: number;
  /** How long until it is looked again. */
  againMs: number;
  /** The term as a majority knew it when the write was sent; undefined where nobody knows. */
  sentTerm: number | undefined;
  /** As a majority knows it now. Throws when nobody tells; what it throws that is `internal` ends the wait. */
  term: () => Promise<number>;
  /** Whether the member that was asked is known not to answer. */
  isHanging: () => boolean;
  clock?: Pick<Clock, 'sleep'>;
  signal: AbortSignal;
}>;

/**
 * The answer; or `timeout` where there is none to come. What was on its way to a leader that went is answered by nobody, and
 * who waits for it is better told as soon as another leads: it was carried out, or not, as after any `timeout`.
 */
export function unlessLost<T>(answer: Promise<T>, doubt: Doubt): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const settled = new AbortController();
  const timer = setTimeout(() => {
    const signal = AbortSignal.any([settled.signal, doubt.signal]);
    reasonOfLoss(doubt, signal).then((reason) => {
      if (reason === undefined) return;
      reject(
        new FlynnError(
          'timeout',
          `${doubt.what} in etcd was not answered, and ${reason}: it may have been carried out, look and do it again`,
        ),
      );
    }, reject);
  }, doubt.afterMs);
  const settle = () => {
    clearTimeout(timer);
    settled.abort();
  };
  void answer.then(
    (value) => {
      settle();
      resolve(value);
    },
    (error: unknown) => {
      settle();
      reject(error);
    },
  );
  return promise;
}

/** Nothing once the signal aborts. */
async function reasonOfLoss(doubt: Doubt, signal: AbortSignal): Promise<string | undefined> {
  let { sentTerm } = doubt;
  while (!signal.aborted) {
    const term = await knownTerm(doubt);
    const hasMoved = term !== undefined && sentTerm !== undefined && term > sentTerm;
    sentTerm ??= term;
    const isLost = hasMoved || doubt.isHanging();
    await pause(isLost ? graceMs : doubt.againMs, signal, doubt.clock);
    if (isLost && !signal.aborted) return hasMoved ? 'another member leads since' : 'its member does not answer';
  }
  return undefined;
}

/** Who cannot be asked now is asked again, until the write's own time is over; a bug in asking is not waited for. */
async function knownTerm({ term }: Doubt): Promise<number | undefined> {
  try {
    return await term();
  } catch (error) {
    if (asFlynnError(error).code === 'internal') throw error;
    return undefined;
  }
}
