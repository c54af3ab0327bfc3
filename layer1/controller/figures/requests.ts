/** How many requests an app has, and how long they take, by what routers counted at two looks. */
import { latencyAt } from '../routes/latency.ts';
import type { AppStats } from '../routes/app-stats.ts';
import { requestFields } from './model.ts';
import type { RequestField } from './model.ts';
import type { Row } from './ring.ts';

export type RequestRow = Row<RequestField>;

/** Of one router. */
type Counted = Readonly<{ atMs: number; apps: ReadonlyMap<string, AppStats> }>;

/** `others`: of every app that is not among the rows. */
export type RequestRows = Readonly<{ rows: ReadonlyMap<string, RequestRow>; others: RequestRow }>;

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
 * INVARIANT. A request is counted once or not at all. Where it may be that some were not, because a router or a route went or
 * began anew, the app's figures of that look are unknown rather than less than they were.
 */
export class RequestRates {
  #routers: ReadonlyMap<string, Counted> = new Map();

  /**
   * `counts`: of the routers that answered, by address; `silent`: those that did not. Answers with a row for each app that had a
   * request at a router, unknown ones among them.
   */
  note(atMs: number, counts: ReadonlyMap<string, readonly AppStats[]>, silent: readonly string[]): RequestRows {
    const before = this.#routers;
    const now = new Map(
      [...counts].map(([address, apps]) => [address, { atMs, apps: new Map(apps.map((app) => [app.appId, app])) }]),
    );
    // What was counted meanwhile is told by its next answer.
    const waiting = silent.flatMap((address) => {
      const known = before.get(address);
      return known === undefined ? [] : [[address, known] as const];
    });
    this.#routers = new Map([...waiting, ...now]);
    const appIds = new Set<string>();
    for (const { apps } of [...before.values(), ...now.values()]) for (const id of apps.keys()) appIds.add(id);
    const isWhole = silent.length === 0 && now.size > 0;
    const rows = new Map([...appIds].map((id) => [id, isWhole ? rowOf(id, before, now) : unknown]));
    return { rows, others: isWhole && before.size > 0 ? none : unknown };
  }
}

function rowOf(appId: string, before: ReadonlyMap<string, Counted>, now: ReadonlyMap<string, Counted>): RequestRow {
  const sum = { perSecond: 0, clientErrorsPerSecond: 0, serverErrorsPerSecond: 0, inFlight: 0 };
  const counts: number[] = [];
  for (const address of new Set([...before.keys(), ...now.keys()])) {
    const [was, is] = [before.get(address), now.get(address)];
    const [first, last] = [was?.apps.get(appId), is?.apps.get(appId)];
    if (first === undefined && last === undefined) continue;
    // A router that nobody has asked before, or that has left, may have had any number.
    if (was === undefined || is === undefined || last === undefined) return unknown;
    if (first !== undefined && isAnew(first, last)) return unknown;
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
