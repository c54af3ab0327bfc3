/** How many requests an app has, and how long they take, by what routers counted at two looks. */
import { latencyAt } from '../routes/latency.ts';
import type { AppStats, RouterCounts } from '../routes/app-stats.ts';
import { requestFields } from './model.ts';
import type { RequestField } from './model.ts';
import type { Row } from './ring.ts';

export type RequestRow = Row<RequestField>;

/** Of one router. `isAll`: there was room for all that it told. */
type Counted = Readonly<{ instance: string; atMs: number; apps: ReadonlyMap<string, AppStats>; isAll: boolean }>;

/** `others`: of every app that is not among the rows; `leftOut`: those that there is no room for, unknown among the rows. */
export type RequestRows = Readonly<{
  rows: ReadonlyMap<string, RequestRow>;
  others: RequestRow;
  leftOut: ReadonlySet<string>;
}>;

/** Some 11 MB for each router. */
const defaultMaxApps = 10_000;

const unknown = Object.fromEntries(requestFields.map((name) => [name, Number.NaN])) as RequestRow;
/** No request takes no time. */
const none: RequestRow = {
  ...unknown,
  perSecond: 0,
  clientErrorsPerSecond: 0,
  serverErrorsPerSecond: 0,
  inFlight: 0,
};

/**
 * INVARIANTS. A request is counted once or not at all. Where it may be that some were not, because a router or a route went or
 * began anew, the app's figures of that look are unknown rather than less than they were. Of each router no more than `maxApps` are
 * kept, first of all those that were before.
 */
export class RequestRates {
  readonly #maxApps: number;
  #routers: ReadonlyMap<string, Counted> = new Map();

  constructor(options: { maxApps?: number } = {}) {
    this.#maxApps = options.maxApps ?? defaultMaxApps;
  }

  /**
   * `counts`: of the routers that answered, by address; `silent`: those that did not. Answers with a row for each app that had a
   * request at a router, unknown ones among them.
   */
  note(counts: ReadonlyMap<string, RouterCounts>, silent: readonly string[]): RequestRows {
    const before = this.#routers;
    const leftOut = new Set<string>();
    const now = new Map(
      [...counts].map(([address, told]) => [address, this.#kept(told, before.get(address)?.apps, leftOut)]),
    );
    // What was counted meanwhile is told by its next answer.
    const waiting = silent.flatMap((address) => {
      const known = before.get(address);
      return known === undefined ? [] : [[address, known] as const];
    });
    this.#routers = new Map([...waiting, ...now]);
    const appIds = new Set<string>();
    for (const { apps } of [...before.values(), ...now.values()]) for (const id of apps.keys()) appIds.add(id);
    // Of one that has left, or is another one at the same address, nobody knows what it counted at the last.
    const isWhole =
      silent.length === 0 &&
      now.size > 0 &&
      before.entries().every(([address, { instance }]) => now.get(address)?.instance === instance);
    const rows = new Map([...appIds].map((id) => [id, isWhole ? rowOf(id, before, now) : unknown]));
    for (const id of leftOut) rows.set(id, unknown);
    return { rows, others: isWhole && before.size > 0 ? none : unknown, leftOut };
  }

  #kept({ instance, atMs, apps }: RouterCounts, before: Counted['apps'] | undefined, leftOut: Set<string>): Counted {
    const isAll = apps.length <= this.#maxApps;
    const isNew = ({ appId }: AppStats) => Number(before?.has(appId) !== true);
    const sorted = isAll ? apps : apps.toSorted((a, b) => isNew(a) - isNew(b));
    for (const { appId } of sorted.slice(this.#maxApps)) leftOut.add(appId);
    return { instance, atMs, apps: new Map(sorted.slice(0, this.#maxApps).map((app) => [app.appId, app])), isAll };
  }
}

function rowOf(appId: string, before: ReadonlyMap<string, Counted>, now: ReadonlyMap<string, Counted>): RequestRow {
  const sum = { perSecond: 0, clientErrorsPerSecond: 0, serverErrorsPerSecond: 0, inFlight: 0 };
  const counts: number[] = [];
  for (const address of new Set([...before.keys(), ...now.keys()])) {
    const [was, is] = [before.get(address), now.get(address)];
    const [first, last] = [was?.apps.get(appId), is?.apps.get(appId)];
    if (first === undefined && last === undefined) continue;
    // A router that nobody has asked before may have had any number.
    if (was === undefined || is === undefined || last === undefined) return unknown;
    if (first === undefined ? !was.isAll : isAnew(first, last)) return unknown;
    const seconds = (is.atMs - was.atMs) / 1_000;
    if (seconds <= 0) return unknown;
    sum.perSecond += (last.requests - (first?.requests ?? 0)) / seconds;
    sum.clientErrorsPerSecond += (last.clientErrors - (first?.clientErrors ?? 0)) / seconds;
    sum.serverErrorsPerSecond += (last.serverErrors - (first?.serverErrors ?? 0)) / seconds;
    sum.inFlight += last.active;
    for (const [index, count] of last.latency.entries()) {
      counts[index] = (counts[index] ?? 0) + count - (first?.latency[index] ?? 0);
    }
  }
  const at = (share: number) => latencyAt(share, { counts }) ?? Number.NaN;
  return { ...sum, p50Ms: at(0.5), p95Ms: at(0.95), p99Ms: at(0.99) };
}

function isAnew(first: AppStats, last: AppStats): boolean {
  return (
    last.sinceMs > first.sinceMs ||
    last.routes < first.routes ||
    last.requests < first.requests ||
    last.clientErrors < first.clientErrors ||
    last.serverErrors < first.serverErrors ||
    last.latency.some((count, index) => count < (first.latency[index] ?? 0))
  );
}
