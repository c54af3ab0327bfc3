/** Milliseconds since the epoch that nobody sets while they are counted, and whether the machine has another time by now. */
import { FlynnError } from '@flynn/kit/errors';

/** Smaller corrections disturb nothing: hosts' clocks differ by as much. */
const mostOffMs = 2_000;

/** The machine's clock was set: what was planned by the time before, or waits for one, is void. */
export class ClockSetError extends FlynnError {
  constructor(offMs: number) {
    super('conflict', `the machine's clock was set ${offMs < 0 ? 'back' : 'forward'} by ${Math.abs(offMs) / 1_000} s`);
    this.name = 'ClockSetError';
  }
}

/** INVARIANT. Between two looks at it as much time has passed as it says, whatever the machine's clock is set to. */
export class SteadyClock {
  readonly #startedAt = Date.now() - performance.now();

  readonly now = (): number => this.#startedAt + performance.now();

  /** Throws ClockSetError once what it says is not the time any more. */
  check(): void {
    const offMs = Math.round(Date.now() - this.now());
    if (Math.abs(offMs) > mostOffMs) throw new ClockSetError(offMs);
  }
}
