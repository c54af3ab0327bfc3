/** One reader of changes, which can be slow without anybody waiting for it. */
import type { DiscoveryEvent } from './api.ts';
import { KnownServices } from './service-state.ts';
import type { ServiceState } from './service-state.ts';

/**
 * INVARIANTS. At most `limit` events wait. When there would be more, all are dropped, and the reader gets `lagged` and the
 * difference between what it was told and what is, instead. So in any case what it was told adds up to the state at some
 * moment, and `push` never blocks.
 */
export class Subscription {
  readonly #limit: number;
  readonly #state: () => ReadonlyMap<string, ServiceState>;
  readonly #told = new KnownServices();
  #waiting: DiscoveryEvent[] = [];
  #missed = 0;
  #isEnded = false;
  #wake: (() => void) | undefined;

  constructor(options: { limit: number; state: () => ReadonlyMap<string, ServiceState> }) {
    this.#limit = options.limit;
    this.#state = options.state;
  }

  push(events: readonly DiscoveryEvent[]): void {
    if (this.#missed > 0 || this.#waiting.length + events.length > this.#limit) {
      this.#missed += this.#waiting.length + events.length;
      this.#waiting = [];
    } else this.#waiting.push(...events);
    this.#wake?.();
  }

  /** What waits is still read. */
  end(): void {
    this.#isEnded = true;
    this.#wake?.();
  }

  async *read(): AsyncGenerator<DiscoveryEvent, void, undefined> {
    yield* this.#told.catchUp(this.#state());
    yield { event: 'current' };
    for (;;) {
      if (this.#missed > 0) {
        const missed = this.#missed;
        this.#missed = 0;
        // Whatever is pushed while these are read comes after them.
        const events = this.#told.catchUp(this.#state());
        yield { event: 'lagged', missed };
        yield* events;
        yield { event: 'current' };
        continue;
      }
      const events = this.#waiting;
      this.#waiting = [];
      for (const event of events) {
        this.#told.apply(event);
        yield event;
      }
      if (events.length > 0) continue;
      if (this.#isEnded) return;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      this.#wake = undefined;
    }
  }
}
