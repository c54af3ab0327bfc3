/**
 * Is that the password? To find out costs a tenth of a second of a processor and 32 MB, by design, and anybody may ask: so it is
 * found out for one at a time, beside the event loop, for few that wait, for apps by turns, and for each client only so often while
 * it is wrong.
 */
import { isPasswordOf } from '@flynn/kit/password-hash';
import { Concurrency, RateLimit } from './rate.ts';
import { Turns } from './turns.ts';

export type Checked =
  | { readonly is: 'right' }
  | { readonly is: 'wrong' }
  | { readonly is: 'busy' }
  /** It was wrong too often: so long until the next try. */
  | { readonly is: 'too-often'; readonly waitMs: number };

/** Wrong ones of a client at once, then one every six seconds. */
const tries = { perSecond: 1 / 6, burst: 10 } as const;
/**
 * At the same time, the one that is looked at included: the last of an app's waits three seconds where no other app has any.
 * Whoever asks from very many addresses fills the room of that app alone.
 */
const most = { perClient: 4, perApp: 32, total: 256 } as const;

/** `client`: under which limits count it. */
type Asked = { app: string; client: string; password: string; hash: string };

/** Of all routes of a process together. INVARIANT. At most one is looked at, and what is told never fails. */
export class Passwords {
  readonly #isPasswordOf: (password: string, hash: string) => Promise<boolean>;
  readonly #elapsed: () => number;
  readonly #ofClients = new Concurrency({ perClient: most.perClient });
  readonly #ofApps = new Concurrency({ perClient: most.perApp, total: most.total });
  readonly #turns = new Turns();
  readonly #wrong = new RateLimit(tries);

  /** `elapsed`: milliseconds of a clock that never steps back. */
  constructor(options: { elapsed: () => number; isPasswordOf?: (password: string, hash: string) => Promise<boolean> }) {
    this.#elapsed = options.elapsed;
    this.#isPasswordOf = options.isPasswordOf ?? isPasswordOf;
  }

  async check({ app, client, password, hash }: Asked): Promise<Checked> {
    if (this.#ofClients.enter(client) !== 'entered') return { is: 'busy' };
    try {
      if (this.#ofApps.enter(app) !== 'entered') return { is: 'busy' };
      try {
        return await this.#look({ app, client, password, hash });
      } finally {
        this.#ofApps.leave(app);
      }
    } catch {
      // There was no memory for it.
      return { is: 'busy' };
    } finally {
      this.#ofClients.leave(client);
    }
  }

  async #look({ app, client, password, hash }: Asked): Promise<Checked> {
    const waitMs = this.#wrong.take(client, this.#elapsed());
    if (waitMs > 0) return { is: 'too-often', waitMs };
    const isRight = await this.#turns.take(app, () => this.#isPasswordOf(password, hash));
    if (isRight) this.#wrong.giveBack(client);
    return { is: isRight ? 'right' : 'wrong' };
  }
}
