/**
 * May a transaction that nobody answered still be carried out? It may lie with a member that stands still, and be handed on
 * once that goes on, seconds or an hour later: after all that its sender has written since. So each transaction of a client
 * compares the revision of a key of the client's own, its fence, which is not there at first; and before the client sends
 * anything after a transaction without an answer, it writes that key. What comes later than that meets another revision.
 */
import { FlynnError, asFlynnError, hasCode } from '@flynn/kit/errors';
import { raceAbort, withDeadline } from '@flynn/kit/retry';
import type { IRangeResponse, IRequestOp, IResponseHeader, ITxnRequest } from 'etcd3';
import { compareOf, requestOf, wasNeverSent } from './etcd-wire.ts';
import type { Revision } from './store.ts';

/** As much of etcd's as is looked at: one response to each operation of the branch that was taken. */
export type Answer = {
  header: Pick<IResponseHeader, 'revision'>;
  succeeded: boolean;
  responses: { response_range: Pick<IRangeResponse, 'kvs'> }[];
};

export type FenceOptions = {
  /** The client's own. Once it was written it is there for longer than anything may lie with a member. */
  key: string;
  /** Writes it; may do so more than once. Its revision. */
  raise: (key: string) => Promise<Revision>;
};

/**
 * INVARIANTS. Once a transaction is answered that was sent after another one had failed, that other one was carried out
 * before it, or never will be. None is carried out twice.
 */
export class WriteFence {
  readonly #key: string;
  readonly #raise: (key: string) => Promise<Revision>;
  readonly #look: IRequestOp;
  /** 0: there is none. */
  #revision: Revision = 0;
  /** Something was not answered that may pass the fence as it stands. */
  #isDoubted = false;
  #raising: Promise<void> | undefined;

  constructor({ key, raise }: FenceOptions) {
    this.#key = key;
    this.#raise = raise;
    this.#look = requestOf({ get: key });
  }

  /** `send` throws `FlynnError`; nothing is sent any more from `untilMs` (of performance.now()) on. */
  async carryOut<T extends Answer>(
    request: Required<ITxnRequest>,
    { send, untilMs, signal }: { send: (request: ITxnRequest) => Promise<T>; untilMs: number; signal: AbortSignal },
  ): Promise<T> {
    for (;;) {
      if (this.#isDoubted) await this.#stand(untilMs, signal);
      const revision = this.#revision;
      const answer = await this.#sent(send(this.#fenced(request, revision)), revision);
      if (answer.succeeded) return answer;
      const found = revisionOf(answer.responses.at(-1));
      if (found === revision) return { ...answer, responses: answer.responses.slice(0, -1) };
      // Nothing of it was carried out, whatever its own compares say.
      this.#met(found);
    }
  }

  #fenced({ compare, success, failure }: Required<ITxnRequest>, modRevision: Revision): ITxnRequest {
    return {
      compare: [...compare, compareOf({ key: this.#key, modRevision })],
      success,
      failure: [...failure, this.#look],
    };
  }

  async #sent<T>(answer: Promise<T>, revision: Revision): Promise<T> {
    try {
      return await answer;
    } catch (error) {
      // Where the fence was moved meanwhile it is behind it already.
      if (revision === this.#revision && isInDoubt(asFlynnError(error))) this.#isDoubted = true;
      throw error;
    }
  }

  /** The fence does not stand where it was when that was sent. */
  #met(found: Revision): void {
    if (found === this.#revision) return;
    // It was written twice, or else is gone with its time or with the store that was: then it is made anew.
    if (found > this.#revision) this.#revision = found;
    else this.#isDoubted = true;
  }

  /** One for all who wait for it. */
  async #stand(untilMs: number, signal: AbortSignal): Promise<void> {
    this.#raising ??= this.#raise(this.#key)
      .then((revision) => {
        this.#revision = revision;
        this.#isDoubted = false;
      })
      .finally(() => {
        this.#raising = undefined;
      });
    try {
      await raceAbort(this.#raising, withDeadline(untilMs - performance.now(), signal));
    } catch (error) {
      if (signal.aborted || !hasCode(error, 'timeout')) throw error;
      throw new FlynnError('timeout', 'a transaction was not sent to etcd: it did not answer in time', {
        cause: error,
      });
    }
  }
}

function isInDoubt(error: FlynnError): boolean {
  return !wasNeverSent(error) && !hasCode(error, 'invalid', 'not_found', 'denied', 'exhausted');
}

function revisionOf(look: Answer['responses'][number] | undefined): Revision {
  return Number(look?.response_range.kvs[0]?.mod_revision ?? 0);
}
