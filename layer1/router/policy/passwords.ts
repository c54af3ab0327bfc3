/**
 * Is that the password? To find out costs a tenth of a second of a processor and 32 MB, by design, and anybody may ask: so it is
 * found out for one at a time, beside the event loop, for few that wait, and for each client only so often while it is wrong.
 */
import { isPasswordOf } from '@flynn/kit/password-hash';
import { Concurrency, RateLimit } from './rate.ts';

export type Checked =
  | { readonly is: 'right' }
  | { readonly is: 'wrong' }
  | { readonly is: 'busy' }
  /** It was wrong too often: so long until the next try. */
  | { readonly is: 'too-often'; readonly waitMs: number };

/** Wrong ones of a client at once, then one every six seconds. */
const tries = { perSecond: 1 / 6, burst: 10 } as const;
/** At the same time, the one that is looked at included: the last of them waits three seconds. */
const most = { perClient: 4, total: 32 } as const;

/** Of all routes of a process together. INVARIANT. At most one is looked at, and what is told never fails. */
export class Passwords {
  readonly #isPasswordOf: (password: string, hash: string) => Promise<boolean>;
  readonly #elapsed: () => number;
  readonly #waiting = new Concurrency(most);
  readonly #wrong = new RateLimit(tries);
  #last: Promise<unknown> = Promise.resolve();

  /** `elapsed`: milliseconds of a clock that never steps back. */
  constructor(options: { elapsed: () => number; isPasswordOf?: (password: string, hash: string) => Promise<boolean> }) {
    this.#elapsed = options.elapsed;
    this.#isPasswordOf = options.isPasswordOf ?? isPasswordOf;
  }

  /** `client`: under which limits count it. */
  async check(asked: { client: string; password: string; hash: string }): Promise<Checked> {
    const { client, password, hash } = asked;
    if (this.#waiting.enter(client) !== 'entered') return { is: 'busy' };
    try {
      const waitMs = this.#wrong.take(client, this.#elapsed());
      if (waitMs > 0) return { is: 'too-often', waitMs };
      const turn = this.#last.then(() => this.#isPasswordOf(password, hash));
      this.#last = turn.catch(() => undefined);
      const isRight = await turn;
      if (isRight) this.#wrong.giveBack(client);
      return { is: isRight ? 'right' : 'wrong' };
    } catch {
      // There was no memory for it.
      return { is: 'busy' };
    } finally {
      this.#waiting.leave(client);
    }
  }
}
