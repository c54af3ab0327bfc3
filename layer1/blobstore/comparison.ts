/** Takes over what the other stores have and know and this one does not. */
import { messageOf } from '@flynn/kit/errors';
import type { Copying, CopyingDeps } from './copying.ts';
import { Lacks } from './lacks.ts';
import { allOf } from './replica.ts';
import type { Held, Replica } from './replica.ts';
import { Upkeep } from './upkeep.ts';

const everyMs = 60_000;
/** What takes long is done less often: at most this share of the time. */
const greatestShare = 0.05;
/** And however long it takes, after this: a store that has not compared itself for two hours is told to be in trouble. */
const longestMs = 3_600_000;

/**
 * INVARIANTS. It decides nothing: it only adds copies, uses, removals and pointers that another store has. A store or blob
 * that fails holds up no other.
 */
export class Comparison {
  readonly #deps: CopyingDeps;
  readonly #copying: Copying;
  readonly #upkeep: Upkeep;
  readonly missing = new Lacks();
  #completeMs: number | undefined;
  /** How long the last one was at what the next does again: comparing, and copies that came to nothing. */
  #repeatedMs = 0;

  constructor(deps: CopyingDeps, copying: Copying) {
    this.#deps = deps;
    this.#copying = copying;
    this.#upkeep = new Upkeep({
      ...deps,
      name: 'comparing with the other blob stores',
      firstMs: 0,
      everyMs,
      all: async (signal) => {
        await this.compare(signal);
        return Math.min(Math.max(everyMs, this.#repeatedMs / greatestShare), longestMs);
      },
      one: async (digest, signal) => {
        if ((await deps.own.find(digest)) === undefined) await copying.takeFromAny(digest, signal);
      },
    });
  }

  /** When all others had last been compared with. */
  get completeMs(): number | undefined {
    return this.#completeMs;
  }

  /** Somebody asked for a blob that is elsewhere only: it is taken over first. */
  want(digest: string): void {
    this.#upkeep.ask(digest);
  }

  /** Other stores came or went. */
  hurry(): void {
    this.#upkeep.hurry();
  }

  run(signal: AbortSignal): Promise<void> {
    return this.#upkeep.run(signal);
  }

  /** Whether all others were asked, and have nothing any more that this one has not. */
  async compare(signal: AbortSignal): Promise<boolean> {
    const { own, clock, log } = this.#deps;
    const peers = this.#deps.peers();
    this.#repeatedMs = 0;
    if (peers === undefined) return false;
    const beganMs = clock.now();
    const lacked = new Map<string, { held: Held; replicas: Replica[] }>();
    let isComplete = true;
    for (const { host, replica } of peers) {
      try {
        for (const held of await this.#lackedFrom(replica, signal)) {
          lacked.set(held.digest, { held, replicas: [...(lacked.get(held.digest)?.replicas ?? []), replica] });
        }
      } catch (error) {
        if (signal.aborted) return false;
        isComplete = false;
        log.warn(`cannot compare with the blob store on ${host}: ${messageOf(error)}; trying again later`);
      }
    }
    this.#repeatedMs = clock.now() - beganMs;
    for (const { held } of lacked.values()) this.missing.add(held, clock.now());
    if (isComplete) this.missing.keepOnly(lacked);
    const away = new Set<Replica>();
    for (const { held, replicas } of lacked.values()) {
      await this.#upkeep.serveAsked(signal);
      for (const replica of replicas) {
        // It may have come otherwise meanwhile.
        const isThere = (await own.find(held.digest)) !== undefined;
        if (!isThere && away.has(replica)) continue;
        const takingMs = clock.now();
        const outcome = isThere ? 'taken' : await this.#copying.take(held, replica, signal);
        if (outcome !== 'taken') this.#repeatedMs += clock.now() - takingMs;
        if (outcome === 'away') away.add(replica);
        if (outcome !== 'taken' && outcome !== 'obsolete') continue;
        this.missing.delete(held.digest);
        break;
      }
    }
    if (isComplete) this.#completeMs = clock.now();
    return isComplete && this.missing.digests.length === 0;
  }

  /** What a peer has and this store has not, once it knows what that peer knows. */
  async #lackedFrom(peer: Replica, signal: AbortSignal): Promise<Held[]> {
    const { own } = this.#deps;
    const until = { signal };
    for await (const removal of allOf((page) => peer.removals(page, until), digestOf)) await own.remove(removal);
    for await (const pointer of allOf(
      (page) => peer.pointers(page, until),
      ({ name }) => name,
    ))
      await own.point(pointer);
    const lacked: Held[] = [];
    for await (const held of allOf((page) => peer.list(page, until), digestOf)) {
      const mine = await own.find(held.digest);
      if (mine !== undefined && mine.usedAt < held.usedAt) await own.use(held.digest, held.usedAt);
      // What is removed here and not yet there is not lacked.
      if (mine === undefined && ((await own.removedBefore(held.digest)) ?? 0) <= held.usedAt) lacked.push(held);
    }
    return lacked;
  }
}

function digestOf({ digest }: { digest: string }): string {
  return digest;
}
