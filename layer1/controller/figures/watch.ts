/** Looks at what all apps take and do, every 15 seconds, for as long as the controller answers requests. */
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { forever } from '@flynn/kit/tasks';
import { Asking } from '../autoscale/asking.ts';
import { nextLookMs } from '../autoscale/looks.ts';
import { seenStatuses } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import { routerAppStats } from '../routes/app-stats.ts';
import type { RouterCounts } from '../routes/app-stats.ts';
import { FiguresHistory } from './history.ts';
import { Processors } from './processors.ts';
import { RequestRates } from './requests.ts';
import type { RequestRows } from './requests.ts';
import { stepMs } from './ring.ts';
import { hostsOf, runningOf, typeRows } from './sample.ts';

/** Some 3,000 apps that have one process type and requests: docs/metrics.md. */
const roomBytes = 32 * 1024 ** 2;
const askMs = 5_000;
/** Less than a step: a host that has not told by then did not answer. */
const defaultLookMs = 12_000;

type WatchDeps = Pick<Deps, 'cell' | 'hosts' | 'routers' | 'routesByApp' | 'log' | 'now'>;

/**
 * INVARIANTS. What was seen is in memory alone, and each process of the controller sees for itself: none has to be asked for what
 * another saw. All look at the same moments, so that what they tell is the same but for what happened between their questions.
 */
export class FiguresWatch {
  readonly #deps: WatchDeps;
  readonly #processors = new Processors();
  readonly #rates = new RequestRates();
  readonly #lookMs: number;
  readonly #elapsedMs: () => number;
  /** Hosts that did not answer the last time. */
  #silent: ReadonlySet<string> = new Set();
  readonly history: FiguresHistory;

  /** `elapsedMs`: a clock that is never set. */
  constructor(deps: WatchDeps, options: { roomBytes?: number; lookMs?: number; elapsedMs?: () => number } = {}) {
    this.#deps = deps;
    this.#lookMs = options.lookMs ?? defaultLookMs;
    this.#elapsedMs = options.elapsedMs ?? (() => performance.now());
    this.history = new FiguresHistory(options.roomBytes ?? roomBytes);
  }

  /** Resolves when the signal aborts. */
  async run(signal: AbortSignal): Promise<void> {
    const { log, now } = this.#deps;
    const step = async (limited: AbortSignal): Promise<void> => {
      const waitMs = nextLookMs(now(), stepMs) - now();
      await pause(waitMs, limited);
      if (!limited.aborted) await this.look(limited);
    };
    await forever('looking what apps take', step, { signal, log });
  }

  /** One look. Hosts and routers that do not answer leave a gap for what is on them. */
  async look(signal: AbortSignal): Promise<void> {
    const { cell, hosts, routers, routesByApp, now } = this.#deps;
    const step = Math.round(now() / stepMs);
    const until = AbortSignal.timeout(this.#lookMs);
    const asking = new Asking({ hosts, routers, routesByApp, now: this.#elapsedMs });
    const statuses = seenStatuses(cell);
    const asked = runningOf(statuses);
    // Those that hang are asked last: they keep nobody else from being asked in time.
    const hostIds = [...hostsOf(asked)].toSorted((a, b) => Number(this.#silent.has(a)) - Number(this.#silent.has(b)));
    const [told, requests] = await Promise.all([asking.hosts(hostIds, signal, until), this.#requests(signal)]);
    this.#silent = new Set(told.silent.keys());
    // What ended while its host was asked is not missed, and what began meanwhile is for the next look.
    const stillUp = new Map(runningOf(seenStatuses(cell)).map((job) => [job.id, job]));
    const jobs = asked.flatMap(({ id }) => stillUp.get(id) ?? []);
    const known = new Set(statuses.map(({ id }) => id));
    const hostOf = new Map(jobs.map(({ id, hostId }) => [id, hostId]));
    const workloads = cell.workloads.snapshot.entries;
    const types = typeRows(jobs, {
      cores: this.#processors.note(told.seconds, (jobId) => hostOf.get(jobId), known),
      memoryBytes: told.memoryBytes,
      memoryLimitOf: (workloadId) => {
        const version = workloads.get(workloadId)?.value.version;
        return cell.templates.snapshot.entries.get(`${workloadId}/${version}`)?.value.limits?.memoryBytes;
      },
    });
    const appIds = new Set([...types.keys(), ...workloads.keys().map(appIdOf)]);
    this.history.note(step, { appIds, types, requests });
  }

  async #requests(signal: AbortSignal): Promise<RequestRows> {
    const { routers, log } = this.#deps;
    let counts: ReadonlyMap<string, RouterCounts> = new Map();
    let silent: string[] = [];
    try {
      const asked = await routers.ask(
        routerAppStats,
        {},
        { signal: withDeadline(this.#lookMs, signal), timeoutMs: askMs },
      );
      counts = asked.byAddress;
      silent = asked.silent.map(({ address }) => address);
      for (const { address, why } of asked.silent)
        log.debug({ address }, `a router does not tell what it counted: ${why}`);
    } catch (error) {
      signal.throwIfAborted();
      log.debug({ err: error }, `routers could not be found: ${messageOf(error)}`);
    }
    return this.#rates.note(counts, silent);
  }
}
