/** Since when is something in the store as it is? By what this process saw there, and a clock that nobody sets. */
import { pause } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { Revision, Store } from '@flynn/store/store';

/** Seconds more, rather than one to remember for each request. */
const everyMs = 5_000;

/** INVARIANT. Whoever is told that something is old has a process that knew its revision for so long: no clock of others counts. */
export class Sightings {
  readonly #oldMs: number;
  readonly #steadyNow: () => number;
  /** From the oldest to the newest, with revisions that rise. */
  #seen: { revision: Revision; atMs: number }[] = [];
  #looked: Revision = 0;

  constructor(options: { oldMs: number; steadyNow?: (() => number) | undefined }) {
    this.#oldMs = options.oldMs;
    this.#steadyNow = options.steadyNow ?? (() => performance.now());
  }

  /** The store's present revision, every now and then: it goes back where the store was put back, and all that was seen is void. */
  look(revision: Revision): void {
    if (revision < this.#looked) this.#seen = [];
    this.#looked = revision;
    this.note(revision);
  }

  /** The store has come so far, or farther. */
  note(revision: Revision): void {
    const atMs = this.#steadyNow();
    const last = this.#seen.at(-1);
    if (last !== undefined && (revision <= last.revision || atMs - last.atMs < everyMs)) return;
    this.#seen.push({ revision, atMs });
    // Of those that are old the newest tells all that the others do.
    const newestOld = this.#seen.findLastIndex((one) => atMs - one.atMs >= this.#oldMs);
    this.#seen.splice(0, Math.max(0, newestOld));
  }

  /** Whether what was written last at this revision is known to be as it is for so long. */
  isOld(revision: Revision): boolean {
    const nowMs = this.#steadyNow();
    return this.#seen.some((one) => one.revision >= revision && nowMs - one.atMs >= this.#oldMs);
  }
}

/**
 * Looks how far the store is, at once and every few seconds, until the signal aborts. Asks the store itself, by the keys under
 * `prefix`: a mirror comes no farther while nothing changes that it mirrors.
 */
export async function keepLooking(
  sightings: Pick<Sightings, 'look'>,
  options: { store: Pick<Store, 'list'>; prefix: string; log: Logger; signal: AbortSignal; lookMs?: number },
): Promise<void> {
  const { store, prefix, log, signal, lookMs = everyMs } = options;
  const look = async (limited: AbortSignal): Promise<void> => {
    const { revision } = await store.list(prefix, { first: 1, isKeysOnly: true, signal: limited });
    sightings.look(revision);
    await pause(lookMs, limited);
  };
  await forever('looking how far the store is', look, { signal, log });
}
