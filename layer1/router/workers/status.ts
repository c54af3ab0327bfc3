/** What several workers say of themselves, as the word of one router. */
import { FlynnError } from '@flynn/kit/errors';
import type { Status } from '../api.ts';

type BackendStatus = Status['backends'][number];

/** All know the same routes and backends but for moments; what they count adds up. Throws `unavailable` if there is none. */
export function sumOfStatus(parts: readonly Status[]): Status {
  const [first, ...others] = parts;
  if (first === undefined) throw new FlynnError('unavailable', 'no worker of this router answers now');
  const remembered = parts.find((part) => part.remembered !== undefined)?.remembered;
  return {
    ...first,
    ...(remembered === undefined ? {} : { remembered }),
    hasRoutes: parts.every((part) => part.hasRoutes),
    backends: sumOfBackends(parts.flatMap((part) => part.backends)),
    ...sumOfTls(parts.flatMap((part) => part.tls ?? [])),
    counters: others.map((part) => part.counters).reduce(sumOfCounts, first.counters),
  };
}

function sumOfBackends(all: readonly BackendStatus[]): BackendStatus[] {
  const sums = new Map<string, BackendStatus>();
  for (const one of all) {
    const key = `${one.service} ${one.address}`;
    const known = sums.get(key);
    if (known === undefined) sums.set(key, one);
    else {
      const inFlight = known.inFlight + one.inFlight;
      const [isLeaving, isEjected] = [known.isLeaving && one.isLeaving, known.isEjected || one.isEjected];
      sums.set(key, { ...known, inFlight, isLeaving, isEjected });
    }
  }
  return [...sums.values()];
}

/** Certificates are the same everywhere. */
function sumOfTls(parts: readonly NonNullable<Status['tls']>[]): Pick<Status, 'tls'> {
  const [first] = parts;
  if (first === undefined) return {};
  const sum = (count: (part: NonNullable<Status['tls']>) => number) =>
    parts.reduce((all, part) => all + count(part), 0);
  const handshakes = sum((part) => part.handshakes);
  const failures = sum((part) => part.failures);
  const remembered = parts.find((part) => part.remembered !== undefined)?.remembered;
  const unknownNames = sum((part) => part.unknownNames);
  return { tls: { ...first, ...(remembered === undefined ? {} : { remembered }), handshakes, failures, unknownNames } };
}

export function sumOfCounts(one: Status['counters'], other: Status['counters']): Status['counters'] {
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
