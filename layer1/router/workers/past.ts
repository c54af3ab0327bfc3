/** What workers that have left counted: what a router says of itself since its start never becomes less. */
import type { AppPart } from '@flynn/controller/routes/app-stats';
import { routeStatsSchema, sumRouteStats } from '@flynn/controller/routes/stats';
import type { BackendStats, RouteStats } from '@flynn/controller/routes/stats';
import { z } from 'zod';
import { statusSchema } from '../api.ts';
import type { Status } from '../api.ts';
import { sumOfCounts } from './status.ts';

export const lastSchema = z.object({ status: statusSchema, stats: z.array(routeStatsSchema) });

export class Past {
  /** How many workers' counts it has. */
  added = 0;
  #status: Pick<Status, 'counters' | 'tls'> | undefined;
  readonly #routes = new Map<string, RouteStats>();

  /** Those of which it holds anything. */
  get routes(): string[] {
    return [...this.#routes.keys()];
  }

  /** What one that leaves has counted in all. */
  add({ status, stats }: z.output<typeof lastSchema>): void {
    const { counters, tls } = status;
    this.added += 1;
    this.#status =
      this.#status === undefined ? { counters, ...(tls === undefined ? {} : { tls }) } : this.status(status);
    for (const one of stats) {
      const before = this.#routes.get(one.id);
      this.#routes.set(one.id, before === undefined ? one : sumRouteStats([one, ofSameBackends(before, one)]));
    }
  }

  /** `now` is what those that are there say; what is so now is theirs alone to say. */
  status(now: Status): Status {
    if (this.#status === undefined) return now;
    const { counters, tls } = this.#status;
    const sum = { ...now, counters: sumOfCounts(now.counters, counters) };
    if (now.tls === undefined || tls === undefined) return sum;
    return {
      ...sum,
      tls: {
        ...now.tls,
        handshakes: now.tls.handshakes + tls.handshakes,
        failures: now.tls.failures + tls.failures,
        unknownNames: now.tls.unknownNames + tls.unknownNames,
      },
    };
  }

  /** The same of routes; backends that are gone stay so. */
  stats(now: readonly RouteStats[]): RouteStats[] {
    return now.map((stats) => {
      const past = this.#routes.get(stats.id);
      if (past === undefined) return stats;
      // Of what is so now the present is said twice, which changes nothing, and of what is under way nothing.
      return sumRouteStats([stats, ofSameBackends({ ...past, active: 0 }, stats)]);
    });
  }

  /** Of the apps of all routes but these. Nothing of it is under way. */
  *apps(without: ReadonlySet<string>): Generator<AppPart> {
    for (const { id, appId, sinceMs, requests, answers, latency } of this.#routes.values()) {
      if (without.has(id)) continue;
      const { '4xx': clientErrors, '5xx': serverErrors } = answers;
      yield { appId, routes: 1, sinceMs, requests, active: 0, clientErrors, serverErrors, latency: latency.counts };
    }
  }

  /** Of routes that are gone. */
  forget(ids: Iterable<string>): void {
    for (const id of ids) this.#routes.delete(id);
  }
}

/** What `past` counted of backends that are there now. */
function ofSameBackends(past: RouteStats, now: RouteStats): RouteStats {
  const known = new Map(now.backends.map((backend) => [keyOf(backend), backend]));
  const backends = past.backends.flatMap((backend) => {
    const same = known.get(keyOf(backend));
    if (same === undefined) return [];
    return [{ ...backend, active: 0, ejectedBy: 0, isLeader: same.isLeader, isLeaving: same.isLeaving }];
  });
  return { ...past, backends };
}

function keyOf({ service, address }: BackendStats): string {
  return `${service} ${address}`;
}
