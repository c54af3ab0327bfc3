/** Which backends have vanished with their hosts, so that nobody waits for an answer of theirs? */
import { hasErrno, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { pause } from '@flynn/kit/clock';
import type { Clock } from '@flynn/kit/clock';
import type { Backend } from './backend.ts';
import type { Unanswered } from './tcp-table.ts';

const lookMs = 1_000;
/** Of the time it took to read the kernel's table, that is long where there are many connections; but never for long. */
const restTimes = 20;
const maxRestMs = 2_000;
/** In a row: on a network without much of a delay after 3.4 s, and after 1.6 s. */
const unansweredWhileListed = 4;
const unansweredWhenLeft = 3;

type SilenceOptions = Readonly<{
  backends: { all(): Iterable<Backend> };
  unanswered: Unanswered;
  clock: Pick<Clock, 'sleep' | 'now'>;
  log: Logger;
}>;

/**
 * A host that loses power, or its network, ends no connection: what was asked there would wait for the limit of its route.
 * Whoever uses a backend that has said nothing for a second is therefore looked after in the kernel's table of connections.
 *
 * INVARIANT. Being slow, busy or stopped makes no backend vanish; only a kernel that does not answer does.
 */
export class Silence {
  readonly #options: SilenceOptions;

  constructor(options: SilenceOptions) {
    this.#options = options;
  }

  /** Until the signal. Where the kernel has no such table it ends at once, and says so; a look that fails is followed by others. */
  async run(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options;
    let isTold = false;
    for (let restMs = lookMs; !signal.aborted;) {
      await pause(restMs, signal, clock);
      const startedMs = clock.now();
      try {
        await this.look();
        isTold = false;
      } catch (error) {
        const isWithout = hasErrno(error, 'ENOENT');
        const until = isWithout ? '' : ' for the moment';
        if (!isTold)
          log.warn({ err: error }, `backends whose host vanishes are not noticed${until}: ${messageOf(error)}`);
        isTold = true;
        if (isWithout) return;
      }
      restMs = Math.min(maxRestMs, Math.max(lookMs, restTimes * (clock.now() - startedMs)));
    }
  }

  /** At those in use that have not said anything since the last look. */
  async look(): Promise<void> {
    const suspects = new Map<string, Backend[]>();
    for (const backend of this.#options.backends.all()) {
      if (backend.inFlight === 0 || backend.hasSpoken()) continue;
      backend.askForLife();
      const same = suspects.get(backend.address);
      if (same === undefined) suspects.set(backend.address, [backend]);
      else same.push(backend);
    }
    if (suspects.size === 0) return;
    const unanswered = await this.#options.unanswered([...suspects.keys()]);
    for (const [address, times] of unanswered) {
      for (const backend of suspects.get(address) ?? []) this.#judge(backend, times);
    }
  }

  #judge(backend: Backend, times: number): void {
    const { log } = this.#options;
    const { address, service, inFlight, isLeaving } = backend;
    if (times < (isLeaving ? unansweredWhenLeft : unansweredWhileListed) || backend.hasSpoken()) return;
    log.warn({ address, service, inFlight, times }, 'the host of a backend does not answer: its connections are cut');
    backend.avoid(performance.now());
    backend.vanish();
  }
}
