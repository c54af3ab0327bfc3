/** Takes copies over from other stores. */
import type { Clock } from '@flynn/kit/clock';
import { openDownload } from '@flynn/kit/download';
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { paced } from './pace.ts';
import type { Held, OwnReplica, Replica } from './replica.ts';
import type { Peer } from './replicated.ts';

export type CopyingDeps = {
  own: OwnReplica;
  peers: () => readonly Peer[] | undefined;
  clock: Clock;
  log: Logger;
};

/** `obsolete`: it was removed meanwhile, here or there. `away`: the other store does not answer. */
export type Taken = 'taken' | 'obsolete' | 'away' | 'failed';

/** A copy is kept only if its bytes are its digest; what fails is told in the log, and may be tried again. */
export class Copying {
  readonly #deps: CopyingDeps;
  readonly #bytesPerSecond: number;
  readonly counts = { copies: 0, bytes: 0 };

  constructor(deps: CopyingDeps, { bytesPerSecond }: { bytesPerSecond: number }) {
    this.#deps = deps;
    this.#bytesPerSecond = bytesPerSecond;
  }

  async take(held: Held, peer: Replica, signal: AbortSignal): Promise<Taken> {
    const { own, clock, log } = this.#deps;
    const { digest, sizeBytes } = held;
    try {
      const body = await openDownload(async (from, until) => (await peer.open(digest, { from, ...until })).body, {
        what: `the copy of ${digest}`,
        signal,
      });
      try {
        const bytesPerSecond = this.#bytesPerSecond;
        await own.copy(held, paced(body, { bytesPerSecond, clock, signal }), { signal });
      } finally {
        body.destroy();
      }
    } catch (error) {
      if (hasCode(error, 'conflict', 'not_found')) return 'obsolete';
      if (!signal.aborted) log.warn(`could not take over the blob ${digest}: ${messageOf(error)}; trying again later`);
      return hasCode(error, 'unavailable', 'timeout') ? 'away' : 'failed';
    }
    this.counts.copies += 1;
    this.counts.bytes += sizeBytes;
    return 'taken';
  }

  /** From the first that has it whole. */
  async takeFromAny(digest: string, signal: AbortSignal): Promise<boolean> {
    for (const { host, replica } of this.#deps.peers() ?? []) {
      try {
        const held = await replica.find(digest, { signal });
        if (held !== undefined && (await this.take(held, replica, signal)) === 'taken') return true;
      } catch (error) {
        if (signal.aborted) return false;
        this.#deps.log.warn(`cannot ask the blob store on ${host} for ${digest}: ${messageOf(error)}`);
      }
    }
    return false;
  }
}
