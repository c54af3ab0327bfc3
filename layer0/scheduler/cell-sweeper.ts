/** Removes what nobody needs any more: templates without jobs, ended evaluations, statuses of hosts that never came back. */
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { Operation, Store } from '@flynn/store/store';
import { attempt } from './attempt.ts';
import { cellKeys } from './cell.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import type { SchedulerCore } from './core.ts';
import { isOldEvaluation, newestTimeOf } from './leftovers.ts';

export type SweeperOptions = Readonly<{ store: Store; core: SchedulerCore; log: Logger; sweepMs?: number }>;

const statusesKeptMs = 24 * 60 * 60_000;
/** What no event told of: templates and plans of all workloads. */
const thoroughMs = 24 * 60 * 60_000;
const operationsAtOnce = 100;

/**
 * INVARIANTS. Each workload is swept by the scheduler it falls to, the cell's other leftovers by the one that the name
 * `cell` falls to. What is removed is compared with what it hangs on, so it does not matter when two of them sweep at once.
 */
export class CellSweeper {
  readonly #options: SweeperOptions;
  /** Versions of theirs may still have jobs. */
  #candidates = new Set<string>();
  #thoroughAt = 0;
  /** Hosts that have left statuses behind: since when this one saw that they are gone. */
  readonly #goneSince = new Map<string, number>();

  constructor(options: SweeperOptions) {
    this.#options = options;
  }

  run(tasks: TaskGroup): void {
    const { log, sweepMs = 60_000 } = this.#options;
    const step = async (signal: AbortSignal) => {
      await systemClock.sleep(sweepMs * (0.75 + Math.random() / 2), { signal });
      await this.sweep(Date.now(), signal);
    };
    tasks.run('cell sweeper', (signal) => forever('sweeping the cell', step, { log, maxMs: 60_000, signal }));
  }

  async sweep(now: number, signal: AbortSignal): Promise<void> {
    const { core } = this.#options;
    for (const workloadId of core.takeRetired()) this.#candidates.add(workloadId);
    if (core.isOwnWorkload('cell')) {
      await this.#attempt('ended evaluations', () => this.#sweepEvaluations(now, signal));
      await this.#attempt('statuses of hosts that are gone', () => this.#sweepStatuses(now, signal));
      if (now >= this.#thoroughAt) {
        await this.#attempt('what no event told of', async () => {
          await this.#findAll(signal);
          this.#thoroughAt = now + thoroughMs;
        });
      }
    } else {
      // Nobody looks here any more whether they came back.
      this.#goneSince.clear();
    }
    for (const workloadId of this.#candidates) {
      const isAnothers = !core.isOwnWorkload(workloadId) && !core.isOwnWorkload('cell');
      await this.#attempt(`templates of ${workloadId}`, async () => {
        if (isAnothers || (await this.#sweepWorkload(workloadId, signal))) this.#candidates.delete(workloadId);
      });
    }
  }

  async #attempt(what: string, sweep: () => Promise<void>): Promise<void> {
    await attempt(`sweep ${what}`, sweep, this.#options.log);
  }

  async #findAll(signal: AbortSignal): Promise<void> {
    const { entries } = await this.#options.store.list(cellKeys.templates, { signal });
    for (const { key } of entries) {
      const [workloadId = '', version = ''] = key.slice(cellKeys.templates.length).split('/');
      if (this.#options.core.columns.workload(workloadId)?.value.version !== version) this.#candidates.add(workloadId);
    }
    for (const [key] of this.#options.core.columns.versions('plans')) {
      const workloadId = key.slice(cellKeys.plans.length);
      if (this.#options.core.columns.workload(workloadId) === undefined) this.#candidates.add(workloadId);
    }
  }

  /** Whether nothing is left to be removed later. */
  async #sweepWorkload(workloadId: string, signal: AbortSignal): Promise<boolean> {
    const { store, core } = this.#options;
    const { entries } = await store.list(cellKeys.templatesOf(workloadId), { signal });
    const { columns } = core;
    if (mayNameMore(columns, workloadId)) return false;
    const workload = columns.workload(workloadId);
    const planRevision = columns.planRevisionOf(workloadId);
    const versions = new Set(columns.jobsOf(workloadId).map(({ version }) => version));
    const isGone = workload === undefined && versions.size === 0;
    if (workload !== undefined) versions.add(workload.value.version);
    const named = new Set([...versions].map((version) => cellKeys.template(workloadId, version)));
    const unused = entries.filter(({ key }) => !named.has(key));
    const then: Operation[] = unused.map(({ key }) => ({ delete: key }));
    if (isGone && planRevision > 0) then.push({ delete: cellKeys.lastPlan(workloadId) });
    if (then.length > 0) {
      await store.transact(
        {
          compare: [
            { key: cellKeys.workload(workloadId), modRevision: workload?.modRevision ?? 0 },
            { key: cellKeys.lastPlan(workloadId), modRevision: planRevision },
          ],
          then,
        },
        { signal },
      );
    }
    return isGone || (versions.size === 1 && workload !== undefined);
  }

  /** What ended stays as it is, so nothing is compared. */
  async #sweepEvaluations(now: number, signal: AbortSignal): Promise<void> {
    const { store } = this.#options;
    const { entries } = await store.list(cellKeys.evaluations, { signal });
    const old = entries.filter(({ value }) => isOldEvaluation(value, now));
    for (let from = 0; from < old.length; from += operationsAtOnce) {
      const then = old.slice(from, from + operationsAtOnce).map(({ key }) => ({ delete: key }));
      await store.transact({ then }, { signal });
    }
  }

  async #sweepStatuses(now: number, signal: AbortSignal): Promise<void> {
    const { store, core } = this.#options;
    for (const hostId of core.columns.knownHosts()) {
      const { columns } = core;
      const isThere = columns.hosts.has(hostId) || columns.claims.has(hostId);
      if (isThere || columns.versions('status', hostId).next().done === true) {
        this.#goneSince.delete(hostId);
        continue;
      }
      const goneSince = this.#goneSince.get(hostId) ?? now;
      this.#goneSince.set(hostId, goneSince);
      const { entries } = await store.list(cellKeys.hostStatus(hostId), { signal });
      if (entries.some(({ value }) => (newestTimeOf(value) ?? goneSince) > now - statusesKeptMs)) continue;
      const compare = [cellKeys.host(hostId), cellKeys.claim(hostId)].map((key) => ({ key, modRevision: 0 }));
      await store.transact({ compare, then: [{ deletePrefix: cellKeys.hostStatus(hostId) }] }, { signal });
    }
  }
}

/** Jobs in an assignment that cannot be read name templates too, whosever they are. */
function mayNameMore(columns: CellColumns, workloadId: string): boolean {
  if (columns.unreadable(workloadId) !== undefined) return true;
  return columns.faulty.keys().some((key) => key.startsWith(cellKeys.assignments));
}
