/** Puts right the claims that are not what their hosts' jobs come to: such a host is passed over, or given more than it has. */
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { Entry, Revision, Store } from '@flynn/store/store';
import { attempt } from './attempt.ts';
import { cellKeys } from './cell.ts';
import type { Claim } from './cell.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { decode } from './columns/entries.ts';
import { areSameSums, claimOf } from './ledger.ts';

export type ClaimMenderOptions = Readonly<{
  store: Store;
  columns: CellColumns;
  newId: () => string;
  log: Logger;
  /** How often some are looked at, default 30 s. */
  repairMs?: number;
}>;

/** So many hosts are looked at in one go, the next ones the next time; those whose claim does not decode every time. */
const hostsAtOnce = 64;

/**
 * INVARIANTS. Assignments are written together with their host's claim and never without: as long as the claim is the same, so is
 * the sum. What is written is the sum of what the store has, for the claim it was read with; the columns only say where to look.
 */
export class ClaimMender {
  readonly #options: ClaimMenderOptions;
  #nextHost = 0;

  constructor(options: ClaimMenderOptions) {
    this.#options = options;
  }

  run(tasks: TaskGroup): void {
    const { log, repairMs = 30_000 } = this.#options;
    const step = async (signal: AbortSignal) => {
      await systemClock.sleep(repairMs * (0.75 + Math.random() / 2), { signal });
      await this.mend(signal);
    };
    tasks.run('claim mender', (signal) => forever('mending claims', step, { log, maxMs: 60_000, signal }));
  }

  async mend(signal: AbortSignal): Promise<void> {
    const { log } = this.#options;
    for (const hostId of this.#suspects()) {
      await attempt(`mend the claims on host ${hostId}`, () => this.#mendHost(hostId, signal), log);
    }
  }

  #suspects(): Set<string> {
    const { columns } = this.#options;
    const undecoded = [...columns.faulty.keys()].filter((key) => key.startsWith(cellKeys.claims));
    const suspects = new Set(undecoded.map((key) => key.slice(cellKeys.claims.length)));
    const hosts = [...new Set([...columns.claims.keys(), ...columns.hostsWithJobs()])];
    for (let count = 0; count < Math.min(hostsAtOnce, hosts.length); count += 1) {
      const hostId = hosts[this.#nextHost % hosts.length] ?? '';
      this.#nextHost += 1;
      const groups = columns.assignmentIds(hostId).flatMap((id) => columns.assignmentGroups(hostId, id) ?? []);
      if (!areSameSums(columns.claims.get(hostId)?.value, claimOf(groups, ''))) suspects.add(hostId);
    }
    return suspects;
  }

  async #mendHost(hostId: string, signal: AbortSignal): Promise<void> {
    const { store, newId, log } = this.#options;
    const [key, hostKey, assignments] = [
      cellKeys.claim(hostId),
      cellKeys.host(hostId),
      cellKeys.hostAssignments(hostId),
    ];
    const { reads } = await store.transact(
      { then: [{ get: key }, { get: hostKey }, { list: assignments }] },
      { signal },
    );
    const [[stored] = [], [host] = [], entries = []] = reads;
    const sum = sumOf(entries, newId());
    if (sum === undefined) {
      log.warn({ hostId }, `the claims on host ${hostId} stay as they are: an assignment of it cannot be read`);
      return;
    }
    const before = stored === undefined ? undefined : decoded(stored);
    if (before !== 'unreadable' && areSameSums(before, sum)) return;
    const isOver = host === undefined && sum.jobs === 0;
    const compare = [
      { key, modRevision: revisionOf(stored) },
      { key: hostKey, createRevision: host?.createRevision ?? 0 },
    ];
    const then = [isOver ? { delete: key } : { put: key, value: JSON.stringify(sum) }];
    const { succeeded } = await store.transact({ compare, then }, { signal });
    if (!succeeded) return;
    log.warn(
      { hostId, before: stored?.value, after: sum },
      `the claims on host ${hostId} were not what its jobs come to`,
    );
  }
}

/** Undefined where not all of it can be read. */
function sumOf(assignments: readonly Entry[], planId: string): Claim | undefined {
  try {
    return claimOf(
      assignments.flatMap(({ value }) => decode.assignments(value).groups),
      planId,
    );
  } catch {
    return undefined;
  }
}

function decoded({ value }: Entry): Claim | 'unreadable' {
  try {
    return decode.claims(value);
  } catch {
    return 'unreadable';
  }
}

function revisionOf(entry: Entry | undefined): Revision {
  return entry?.modRevision ?? 0;
}
