/**
 * Whose is the record under this host's name: this agent's, that of one before it on this host, or another machine's? One that was
 * made of this host's disk has its id and its keys, and does all that this host does.
 */
import { join } from 'node:path';
import { readJsonFile, writeFileAtomic } from '@flynn/kit/files';
import { messageOf } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Logger } from '@flynn/kit/log';
import { hostRecordSchema } from '@flynn/scheduler/cell';
import type { HostRecord } from '@flynn/scheduler/cell';
import type { Entry } from '@flynn/store/store';
import { z } from 'zod';

const schema = z.object({
  /** Of the agents whose record may stand. */
  runs: z.array(z.string()),
  /** On which the last of them left its record as it ended. */
  left: z.string().optional(),
});
type Kept = z.output<typeof schema>;

const fileOf = (stateDir: string): string => join(stateDir, 'runs.json');
/** Each agent that ends before its record stands leaves one more. */
const keptRuns = 50;

/** One that cannot be read is none: then a record of this host's stands in the way until its lease ends, and no longer. */
async function readRuns(stateDir: string, log: Logger): Promise<Kept> {
  try {
    return (await readJsonFile(fileOf(stateDir), schema)) ?? { runs: [] };
  } catch (error) {
    log.warn(`which agents of this host were before is not known: ${messageOf(error)}`);
    return { runs: [] };
  }
}

/** Who holds the record while this agent may not have it. `mayBeOwn`: of a run that this disk knows, an agent before maybe. */
export type Rival = { record: Holder; lease: string; mayBeOwn?: true };

/** Of a record what tells whose it is: what else a later version says in one does not make it nobody's. */
const holderSchema = hostRecordSchema.pick({ id: true, address: true, localAddress: true, startedAt: true, run: true });
type Holder = z.output<typeof holderSchema>;

/**
 * INVARIANTS. The disk knows a run before the record says it, and forgets those before only once its own record stands: an
 * agent that begins on this disk takes over at once, wherever the one before it ended. A copy that took over has forgotten the run
 * it took the record from, and does not get it again while that one lives.
 */
export class OwnRuns {
  readonly #stateDir: string;
  readonly #log: Logger;
  readonly #id = shortId();
  readonly #leases = new Set<string>();
  #former: Kept;
  #isKept = false;
  #hasStood = false;

  private constructor(stateDir: string, former: Kept, log: Logger) {
    this.#stateDir = stateDir;
    this.#former = former;
    this.#log = log;
  }

  static async open(stateDir: string, log: Logger): Promise<OwnRuns> {
    const runs = new OwnRuns(stateDir, await readRuns(stateDir, log), log);
    await runs.#begin();
    return runs;
  }

  /** For who is no agent, and only asks. */
  static async read(stateDir: string, log: Logger): Promise<Pick<OwnRuns, 'elsewhere'>> {
    return new OwnRuns(stateDir, await readRuns(stateDir, log), log);
  }

  /** Undefined where this agent may write: there is none, nobody renews it, or it is of this host. */
  rivalIn(entry: Entry | undefined): Rival | undefined {
    if (entry?.lease === undefined || this.#leases.has(entry.lease)) return undefined;
    const record = recordIn(entry);
    if (record === undefined) return undefined;
    const { run } = record;
    // Agents of before do not say; the one that this agent stands in for may have been of those.
    const isOwn = run === undefined ? !this.#hasStood : run.id === this.#id || this.#former.runs.includes(run.id);
    return isOwn ? undefined : { record, lease: entry.lease };
  }

  /**
   * Before anything is done as this host: also a record that may be of an agent before this one, where it is at none of the
   * machine's own addresses, and not one that was left in order. Of an agent that was killed it is gone within its lease; else
   * it is of the machine that this one is a copy of.
   */
  elsewhere(entry: Entry | undefined, ownAddresses: ReadonlySet<string>): Rival | undefined {
    const rival = this.rivalIn(entry);
    if (rival !== undefined || entry?.lease === undefined || entry.lease === this.#former.left) return rival;
    // Its own, whatever address the machine was given since.
    if (this.#leases.has(entry.lease)) return undefined;
    const record = recordIn(entry);
    if (record?.run === undefined || ownAddresses.has(placeOf(record))) return undefined;
    return { record, lease: entry.lease, mayBeOwn: true };
  }

  /** Whether an agent of this machine was the host last, whichever version it was of. */
  isHere(entry: Entry | undefined, ownAddresses: ReadonlySet<string>): boolean {
    if (entry?.lease === undefined || this.rivalIn(entry) !== undefined) return false;
    const record = recordIn(entry);
    return record !== undefined && ownAddresses.has(placeOf(record));
  }

  /** Whether whoever holds it took this agent for one that had ended. */
  isTakenFromThis({ record }: Rival): boolean {
    return record.run?.after === this.#id;
  }

  /** Before the record is put on the lease: what it says of the run. Where the disk takes nothing, nothing, as agents of before. */
  async runOn(lease: string, entry: Entry | undefined): Promise<HostRecord['run']> {
    this.#leases.add(lease);
    await this.#begin();
    if (!this.#isKept) return undefined;
    const before = entry?.lease === undefined ? undefined : recordIn(entry)?.run;
    const after = before?.id === this.#id ? before.after : before?.id;
    return { id: this.#id, ...(after === undefined ? {} : { after }) };
  }

  /** The record stands. */
  async stand(): Promise<void> {
    if (this.#hasStood) return;
    this.#hasStood = true;
    this.#former = { runs: [] };
    if (this.#isKept) await this.#keep({ runs: [this.#id] });
  }

  /** The record is to be left on this lease: nobody renews that once this agent has ended. */
  async leave(lease: string): Promise<void> {
    if (this.#isKept) await this.#keep({ runs: [this.#id], left: lease });
  }

  async #begin(): Promise<void> {
    if (this.#isKept) return;
    this.#isKept = await this.#keep({ ...this.#former, runs: [...this.#former.runs, this.#id].slice(-keptRuns) });
  }

  /** A disk that takes nothing keeps no host out. */
  async #keep(kept: Kept): Promise<boolean> {
    try {
      await writeFileAtomic(fileOf(this.#stateDir), JSON.stringify(kept));
      return true;
    } catch (error) {
      this.#log.warn(`a copy of this machine may not be told from it: ${messageOf(error)}`);
      return false;
    }
  }
}

/** By which another machine is told from this one: behind NAT both would have the tunnel's address. */
export function placeOf({ address, localAddress }: Pick<HostRecord, 'address' | 'localAddress'>): string {
  return localAddress ?? address;
}

function recordIn({ value }: Entry): Holder | undefined {
  try {
    return holderSchema.parse(JSON.parse(value));
  } catch {
    return undefined;
  }
}
