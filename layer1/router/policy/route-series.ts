/** Which routes have series of their own, as long as this process is asked: all others are one, called `other`. */
import { sumRouteStats } from '@flynn/controller/routes/stats';
import type { RouteStats } from '@flynn/controller/routes/stats';

const maxSeries = 500;
/** A worker that does not answer in time leaves out what only it has counted, and has it again the next time. */
const goneAfterLooks = 20;

type Other = { last: RouteStats; missedLooks: number };

/**
 * INVARIANT. A route is in one series all the time it is there, and `other` keeps what was counted of routes that are gone:
 * none goes backwards, and none takes over what another one had counted.
 */
export class RouteSeries {
  /** How often each was missed in a row. */
  readonly #own = new Map<string, number>();
  readonly #others = new Map<string, Other>();
  #gone: RouteStats | undefined;

  /** The busiest of those that are seen for the first time come first. */
  bounded(stats: readonly RouteStats[]): readonly RouteStats[] {
    const here = new Set(stats.map(({ id }) => id));
    for (const [id, missedLooks] of this.#own) {
      if (here.has(id)) this.#own.set(id, 0);
      else if (missedLooks < goneAfterLooks) this.#own.set(id, missedLooks + 1);
      else this.#own.delete(id);
    }
    const isNew = ({ id }: RouteStats) => !this.#own.has(id) && !this.#others.has(id);
    const byRequests = (a: RouteStats, b: RouteStats) => b.requests - a.requests;
    for (const one of stats.filter(isNew).toSorted(byRequests)) {
      if (this.#own.size < maxSeries - 1) this.#own.set(one.id, 0);
      else this.#others.set(one.id, { last: one, missedLooks: 0 });
    }
    for (const [id, other] of this.#others) {
      other.missedLooks += 1;
      if (other.missedLooks <= goneAfterLooks) continue;
      this.#others.delete(id);
      this.#gone = addOf(this.#gone, { ...other.last, active: 0 });
    }
    const own: RouteStats[] = [];
    for (const one of stats) {
      if (this.#own.has(one.id)) own.push(one);
      else this.#others.set(one.id, { last: one, missedLooks: 0 });
    }
    let other = this.#gone;
    for (const { last, missedLooks } of this.#others.values()) {
      other = addOf(other, missedLooks === 0 ? last : { ...last, active: 0 });
    }
    return other === undefined ? own : [...own, other];
  }
}

function addOf(sum: RouteStats | undefined, one: RouteStats): RouteStats {
  const bare = { ...one, id: 'other', appId: 'other', service: 'other', backends: [] };
  return sum === undefined ? bare : sumRouteStats([sum, bare]);
}
