/** Which of the lines that are sent again are in an app's log already. */
import { hash } from 'node:crypto';
import type { AppLog } from './app-log.ts';
import type { Sending } from './api.ts';
import { linesOf, timestampOf } from './filter.ts';

/** Of a log's end: an agent sends at most 1,000 lines of each job again. */
const rememberedLines = 20_000;
const rememberedBytes = 16 * 1024 * 1024;

/**
 * A job has one line of a stream at a time, but for what the agent itself says: as it is kept, up to its message. Of so many
 * lines their beginnings would be a tenth of all the memory there is.
 */
function identityOf(line: Buffer): string {
  return hash('sha1', line.subarray(0, 300), 'binary');
}

/**
 * What a log ends with; read for one request, because only what was interrupted is sent again. A replay brings old lines
 * of which the log may have kept, and lost, far more: of those older than what is remembered none is new.
 */
export class KnownLines {
  readonly #identities: Set<string>;
  readonly #oldest: string | undefined;

  private constructor(identities: Set<string>, oldest: string | undefined) {
    this.#identities = identities;
    this.#oldest = oldest;
  }

  static async read(log: AppLog, mode: Exclude<Sending, 'fresh'>): Promise<KnownLines> {
    // What a request that broke off left on its way.
    await log.settled();
    const identities = new Set<string>();
    let bytes = 0;
    let oldest: string | undefined;
    let isCut = log.start.byte > 0;
    for await (const block of log.readBackwards(log.end)) {
      for (const line of linesOf(block.bytes)) {
        identities.add(identityOf(line));
        const timestamp = timestampOf(line);
        // What a disk damaged has none.
        if (timestamp !== '' && (oldest === undefined || timestamp < oldest)) oldest = timestamp;
      }
      bytes += block.bytes.length;
      isCut = block.from.byte > 0;
      if (identities.size >= rememberedLines || bytes >= rememberedBytes) break;
    }
    return new KnownLines(identities, isCut && mode === 'replay' ? oldest : undefined);
  }

  /** Asked once of each line: from then on it is known. */
  isNew(line: Buffer): boolean {
    if (this.#oldest !== undefined && timestampOf(line) < this.#oldest) return false;
    const identity = identityOf(line);
    if (this.#identities.has(identity)) return false;
    this.#identities.add(identity);
    return true;
  }
}
