/** What several workers say of themselves, as the word of one router. */
import type { Status } from '../api.ts';

type BackendStatus = Status['backends'][number];

/** All know the same routes and backends but for moments; what they count adds up. At least one. */
export function sumOfStatus(parts: readonly Status[]): Status {
  const [first, ...others] = parts;
  if (first === undefined) throw new TypeError('there is no worker to speak of');
  return {
    ...first,
    hasRoutes: parts.every((part) => part.hasRoutes),
    backends: sumOfBackends(parts.flatMap((part) => part.backends)),
    counters: others.map((part) => part.counters).reduce(sumOfCounts, first.counters),
  };
}

function sumOfBackends(all: readonly BackendStatus[]): BackendStatus[] {
  const sums = new Map<string, BackendStatus>();
  for (const one of all) {
    const key = `${one.service} ${one.address}`;
    const known = sums.get(key);
    if (known === undefined) sums.set(key, one);
    else
      sums.set(key, { ...known, inFlight: known.inFlight + one.inFlight, isLeaving: known.isLeaving && one.isLeaving });
  }
  return [...sums.values()];
}

function sumOfCounts(one: Status['counters'], other: Status['counters']): Status['counters'] {
  const refusals = { ...one.refusals };
  for (const [code, count] of Object.entries(other.refusals)) refusals[code] = (refusals[code] ?? 0) + count;
  return {
    requests: one.requests + other.requests,
    upgrades: one.upgrades + other.upgrades,
    tcpConnections: one.tcpConnections + other.tcpConnections,
    dialFailures: one.dialFailures + other.dialFailures,
    retries: one.retries + other.retries,
    clientsGone: one.clientsGone + other.clientsGone,
    refusals,
  };
}
