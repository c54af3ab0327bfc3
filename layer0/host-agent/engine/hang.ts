/**
 * Does the engine end what it is asked, or does it only answer? One whose network locks are stuck for good still lists containers
 * and tells events, and starts, stops and removes nothing any more: Docker before 23.0 comes to that when many containers end at
 * once, and only its restart helps.
 */
import { type Clock, pause, systemClock } from '@flynn/kit/clock';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Engine } from './engine.ts';

/** How often an engine is asked that answered, or that is known to hang. */
const everyMs = 30_000;
/** After a try that got no answer, until it is known what is so. */
const againMs = 1_000;
/** How long each try in a row waits. The last is what tells an engine that hangs from a machine that is slow. */
const patienceMs = [5_000, 10_000, 20_000, 30_000] as const;

/** Tries in a row that nothing came of, and since when. */
type Tries = Readonly<{ unanswered: number; sinceMs: number }>;

function deadlineAfter(tries: Tries | undefined): number {
  return patienceMs[Math.min(tries?.unanswered ?? 0, patienceMs.length - 1)] ?? everyMs;
}

function unansweredOnce(tries: Tries | undefined, beganMs: number): Tries {
  return { unanswered: (tries?.unanswered ?? 0) + 1, sinceMs: tries?.sinceMs ?? beganMs };
}

function isHang(tries: Tries | undefined): tries is Tries {
  return tries !== undefined && tries.unanswered >= patienceMs.length;
}

export class HangWatch {
  readonly #engine: Pick<Engine, 'checkLocks'>;
  readonly #version: string;
  readonly #log: Logger;
  readonly #clock: Clock;
  #tries: Tries | undefined;

  constructor(options: { engine: Pick<Engine, 'checkLocks'>; version: string; log: Logger; clock?: Clock }) {
    this.#engine = options.engine;
    this.#version = options.version;
    this.#log = options.log;
    this.#clock = options.clock ?? systemClock;
  }

  /** Since when it hangs, in milliseconds since the epoch, if it does: then the host takes no new jobs. */
  get since(): number | undefined {
    return isHang(this.#tries) ? this.#tries.sinceMs : undefined;
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const hungBefore = this.since;
      const beganMs = this.#clock.now();
      const isUnanswered = await this.#tryInVain(signal);
      if (signal.aborted) return;
      this.#tries = isUnanswered ? unansweredOnce(this.#tries, beganMs) : undefined;
      this.#tell(hungBefore);
      const isSettled = this.#tries === undefined || this.since !== undefined;
      await pause(isSettled ? everyMs : againMs, signal, this.#clock);
    }
  }

  /** That one is not there is the containers' table to tell, and one that refuses has answered. */
  async #tryInVain(signal: AbortSignal): Promise<boolean> {
    try {
      await this.#engine.checkLocks({ signal, deadlineMs: deadlineAfter(this.#tries) });
    } catch (error) {
      if (hasCode(error, 'timeout')) return true;
      this.#log.debug(`whether the engine hangs could not be seen: ${messageOf(error)}`);
    }
    return false;
  }

  #tell(hungBefore: number | undefined): void {
    if (hungBefore === undefined && this.since !== undefined) {
      const remedy = hangRemedy(this.#version);
      this.#log.error(
        `the container engine hangs: it answers and ends nothing; this host takes no new jobs: ${remedy}`,
      );
    }
    if (hungBefore !== undefined && this.since === undefined) {
      this.#log.info('the container engine does not hang any more');
    }
  }
}

/** The first major version of Docker without the known fault (moby/moby#42545). */
const mendedIn = 23;

/** Without a version it is told to whoever does not know theirs. */
export function hangRemedy(version?: string): string {
  const restart =
    'systemctl restart docker; where it does not end by itself systemd kills it after 90 s, so let it run (without systemd: kill dockerd with SIGKILL and start it again). Containers that run begin anew, unless the engine has live-restore';
  const fault = `Docker before ${mendedIn}.0 hangs so by a known fault when many containers end at once (moby/moby#42545): a newer engine has it mended`;
  if (version === undefined) return `${restart}. ${fault}`;
  const major = Number.parseInt(version, 10);
  return Number.isInteger(major) && major < mendedIn ? `${restart}. ${fault}; this one is ${version}` : restart;
}
