/** Is another machine this host as well, and since when? */
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { cellKeys } from '@flynn/scheduler/cell';
import type { Store } from '@flynn/store/store';
import { type Clock, systemClock } from '@flynn/kit/clock';
import { absenceSeconds } from '../hosts/absence.ts';
import { untilThere } from '../hosts/record.ts';
import type { Meeting } from '../hosts/record.ts';
import { ownAddresses } from '../hosts/own-addresses.ts';
import { placeOf } from './own-runs.ts';
import type { OwnRuns, Rival } from './own-runs.ts';
import { asideText } from './other-machine.ts';
import type { OtherMachineFile, SeenMachine } from './other-machine.ts';

/**
 * Longer than what an agent that ended leaves behind, unless etcd elects a leader meanwhile, which gives each lease its whole
 * length again: whoever holds the record by then lives, as good as for certain.
 */
export const certainMs = absenceSeconds * 1_000 + 5_000;
/** Longer than it is over a row of elections: sooner a host is not kept out for good by what may be its own former record. */
export const notOwnMs = 120_000;
/** Looks come every second; one may take as long as a call to the store. */
const freshMs = 15_000;
/** How long people are told of one that tried, and was sent away. */
const triedMs = 3_600_000;
const lookMs = 500;

type Met = { rival: Rival; isTakenBack: boolean; firstMs: number; lastMs: number };

/** `isGone`: it was certain that it was there, which keeps this machine from being the host by itself. */
export type KnownRival = { address: string; isTakenBack: boolean; isGone?: true };

/**
 * On performance.now()'s clock. Each is told of in the log when it is met, and once it is certain. What was certain is on the
 * disk, after `notOwnMs` where the record may be this host's own: then this machine stands aside when that one is gone, until the
 * file is.
 */
export class Rivals {
  readonly #log: Pick<Logger, 'warn' | 'error'>;
  readonly #file: OtherMachineFile;
  #met: Met | undefined;
  #toldOf: KnownRival | undefined;
  #aside: SeenMachine | undefined;
  #hasBegun = false;

  constructor(log: Pick<Logger, 'warn' | 'error'>, file: OtherMachineFile) {
    this.#log = log;
    this.#file = file;
  }

  met(rival: Rival, isTakenBack: boolean, nowMs = performance.now()): void {
    const before = this.#met;
    const isSame = before?.rival.lease === rival.lease && !before.isTakenBack && nowMs - before.lastMs < freshMs;
    this.#met = { rival, isTakenBack, firstMs: isSame ? before.firstMs : nowMs, lastMs: nowMs };
    if (isTakenBack || !isSame) this.#toldOf = undefined;
    const known = this.#there(nowMs);
    if (known === undefined && !isSame) this.#log.warn(possibleText(rival));
    if (known === undefined || this.#toldOf !== undefined) return;
    this.#toldOf = known;
    this.#log.error(`${rivalText(rival)}${isTakenBack ? '; this one has taken the record back' : ''}`);
  }

  /** What another store or look says of it, before this agent has done anything as the host. */
  async seen(rival: Rival, ownAddresses: ReadonlySet<string>): Promise<void> {
    if (this.#hasBegun) return;
    this.met(rival, false);
    const address = placeOf(rival.record);
    // At the machine's own it is no other place that this one could be taken for.
    if (!this.#isToBeNoted() || ownAddresses.has(address)) return;
    await this.#file.note({ address, seenAt: systemClock.now() });
    // It may have begun meanwhile.
    if (this.#hasBegun) await this.#forget();
  }

  #isToBeNoted(): boolean {
    if (this.#met === undefined || this.#met.isTakenBack) return false;
    const { rival, firstMs, lastMs } = this.#met;
    return lastMs - firstMs >= (rival.mayBeOwn ? notOwnMs : certainMs);
  }

  /** The machine that was this host for certain, or is, where nobody said since that this one is: asked of the disk each time. */
  async before(ownAddresses: ReadonlySet<string>): Promise<SeenMachine | undefined> {
    const seen = this.#hasBegun ? undefined : await this.#file.read(ownAddresses);
    // It may have begun meanwhile.
    this.#aside = this.#hasBegun ? undefined : seen;
    return this.#aside;
  }

  /** This agent is the host from here on: what others were before is over. */
  async begin(): Promise<void> {
    this.#hasBegun = true;
    this.#met = undefined;
    this.#aside = undefined;
    await this.#forget();
  }

  async #forget(): Promise<void> {
    await this.#file.forget().catch((error: unknown) => this.#log.warn(messageOf(error)));
  }

  /** Whether what is left of one that was met may not be gone yet. */
  wasMetLately(nowMs = performance.now()): boolean {
    return this.#met !== undefined && !this.#met.isTakenBack && nowMs - this.#met.lastMs < certainMs;
  }

  /** Not one whose record may be what is left of an agent of this host. */
  known(nowMs = performance.now()): KnownRival | undefined {
    const there = this.#there(nowMs);
    if (there !== undefined || this.#aside === undefined) return there;
    return { address: this.#aside.address, isTakenBack: false, isGone: true };
  }

  #there(nowMs = performance.now()): KnownRival | undefined {
    if (this.#met === undefined) return undefined;
    const { rival, isTakenBack, firstMs, lastMs } = this.#met;
    const isThere = isTakenBack ? nowMs - lastMs < triedMs : nowMs - lastMs < freshMs && nowMs - firstMs >= certainMs;
    return isThere ? { address: placeOf(rival.record), isTakenBack } : undefined;
  }

  /** Why the agent waits, for people; undefined where nobody holds the record before it, or did for certain. */
  waitsFor(nowMs = performance.now()): string | undefined {
    const isMet = this.#met !== undefined && !this.#met.isTakenBack && nowMs - this.#met.lastMs < freshMs;
    if (!isMet || this.#met === undefined) return this.#aside === undefined ? undefined : asideText(this.#aside);
    return this.#there(nowMs) === undefined ? possibleText(this.#met.rival) : rivalText(this.#met.rival);
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
 * than the record says, and after what an agent left that this disk does not know. Where it was certain that another machine is
 * this host it resolves only once people said that this one is, or the machine has the address that the other one had, or that is
 * in the record.
 */
export async function untilAlone(options: {
  store: Pick<Store, 'get'>;
  runs: Pick<OwnRuns, 'elsewhere' | 'isHere'>;
  rivals: Rivals;
  hostId: string;
  signal: AbortSignal;
  log: Logger;
  addresses?: () => Promise<ReadonlySet<string>>;
  clock?: Pick<Clock, 'sleep'>;
}): Promise<void> {
  const { store, runs, rivals, hostId, signal, log, addresses = ownAddresses, clock = systemClock } = options;
  const look = async () => ({ entry: await store.get(cellKeys.host(hostId), { signal }), here: await addresses() });
  let complaint = '';
  for (let hasWaited = false; ; hasWaited = true) {
    const { entry, here } = await untilThere('the store', look, { signal, log });
    const rival = runs.elsewhere(entry, here);
    if (rival !== undefined) await rivals.seen(rival, here);
    const before = await rivals.before(here);
    if (rival === undefined && (before === undefined || runs.isHere(entry, here))) {
      await rivals.begin();
      if (hasWaited) log.info('no other agent is this host any more: going on');
      return;
    }
    const said = rival === undefined && before !== undefined ? asideText(before) : '';
    if (said !== '' && said !== complaint) log.error(said);
    complaint = said;
    await clock.sleep(lookMs, { signal });
  }
}
