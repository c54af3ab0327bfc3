/** Is another machine this host as well, and since when? */
import type { Logger } from '@flynn/kit/log';
import { cellKeys } from '@flynn/scheduler/cell';
import type { Store } from '@flynn/store/store';
import { type Clock, systemClock } from '@flynn/kit/clock';
import { absenceSeconds } from './absence.ts';
import { untilThere } from './host-record.ts';
import type { Meeting } from './host-record.ts';
import { ownAddresses } from './own-addresses.ts';
import { placeOf } from './own-runs.ts';
import type { OwnRuns, Rival } from './own-runs.ts';

/** Longer than what an agent that ended leaves behind: whoever holds the record by then lives. */
export const certainMs = absenceSeconds * 1_000 + 5_000;
/** Looks come every second; one may take as long as a call to the store. */
const freshMs = 15_000;
/** How long people are told of one that tried, and was sent away. */
const triedMs = 3_600_000;
const lookMs = 500;

type Met = { rival: Rival; isTakenBack: boolean; firstMs: number; lastMs: number };

export type KnownRival = { address: string; isTakenBack: boolean };

/** On performance.now()'s clock. Each is told of in the log when it is met, and once it is certain. */
export class Rivals {
  readonly #log: Pick<Logger, 'warn' | 'error'>;
  #met: Met | undefined;
  #toldOf: KnownRival | undefined;

  constructor(log: Pick<Logger, 'warn' | 'error'>) {
    this.#log = log;
  }

  met(rival: Rival, isTakenBack: boolean, nowMs = performance.now()): void {
    const before = this.#met;
    const isSame = before?.rival.lease === rival.lease && !before.isTakenBack && nowMs - before.lastMs < freshMs;
    this.#met = { rival, isTakenBack, firstMs: isSame ? before.firstMs : nowMs, lastMs: nowMs };
    if (isTakenBack || !isSame) this.#toldOf = undefined;
    const known = this.known(nowMs);
    if (known === undefined && !isSame) this.#log.warn(possibleText(rival));
    if (known === undefined || this.#toldOf !== undefined) return;
    this.#toldOf = known;
    this.#log.error(`${rivalText(rival)}${isTakenBack ? '; this one has taken the record back' : ''}`);
  }

  /** Not one whose record may be what is left of an agent of this host. */
  known(nowMs = performance.now()): KnownRival | undefined {
    if (this.#met === undefined) return undefined;
    const { rival, isTakenBack, firstMs, lastMs } = this.#met;
    const isThere = isTakenBack ? nowMs - lastMs < triedMs : nowMs - lastMs < freshMs && nowMs - firstMs >= certainMs;
    return isThere ? { address: placeOf(rival.record), isTakenBack } : undefined;
  }

  /** Why the agent waits, for people; undefined where nobody holds the record before it. */
  waitsFor(nowMs = performance.now()): string | undefined {
    if (this.#met === undefined || this.#met.isTakenBack || nowMs - this.#met.lastMs >= freshMs) return undefined;
    return this.known(nowMs) === undefined ? possibleText(this.#met.rival) : rivalText(this.#met.rival);
  }
}

/** What every agent can say of it. */
export function rivalText({ record }: Rival): string {
  return `another machine is host ${record.id} too: its agent, at ${placeOf(record)} since ${sinceText(record)}, announces it`;
}

function possibleText({ record }: Rival): string {
  return `host ${record.id} is announced by an agent at ${placeOf(record)}, since ${sinceText(record)}: its former one, which is gone within seconds, or that of another machine, one made of a copy of the other's disk. Nothing is done as this host while it lives`;
}

function sinceText({ startedAt }: Rival['record']): string {
  return new Date(startedAt).toISOString();
}

/**
 * Alone a host has nothing to lose by a lease that ended, and a store that was put back has a former record for a moment. Whose
 * record is taken while its lease holds has lost it to a machine that lives.
 */
export function stopsSingletons(
  how: Exclude<Meeting, 'taken back'>,
  { isAlone, isCertain }: { isAlone: boolean; isCertain: boolean },
): boolean {
  return how === 'taken' || !isAlone || isCertain;
}

/**
 * Resolves once no other agent lives as this host, as far as the record tells: at once but for a machine that is somewhere else
 * than the record says, and after what an agent left that this disk does not know.
 */
export async function untilAlone(options: {
  store: Pick<Store, 'get'>;
  runs: Pick<OwnRuns, 'elsewhere'>;
  rivals: Rivals;
  hostId: string;
  signal: AbortSignal;
  log: Logger;
  addresses?: () => Promise<ReadonlySet<string>>;
  clock?: Pick<Clock, 'sleep'>;
}): Promise<void> {
  const { store, runs, rivals, hostId, signal, log, addresses = ownAddresses, clock = systemClock } = options;
  const look = async () => runs.elsewhere(await store.get(cellKeys.host(hostId), { signal }), await addresses());
  for (let hasWaited = false; ; hasWaited = true) {
    const rival = await untilThere('the store', look, { signal, log });
    if (rival === undefined) {
      if (hasWaited) log.info('no other agent is this host any more: going on');
      return;
    }
    rivals.met(rival, false);
    await clock.sleep(lookMs, { signal });
  }
}
