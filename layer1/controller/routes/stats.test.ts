import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { latencyAt, latencyBoundsMs } from './latency.ts';
import { routeStatsSchema, sumRouteStats } from './stats.ts';
import type { RouteStats } from './stats.ts';

const count = fc.nat(1_000);
/** As they come out of JSON. */
const asParsed = { noNullPrototype: true };
const answers = fc.record({ '1xx': count, '2xx': count, '3xx': count, '4xx': count, '5xx': count }, asParsed);
const size = latencyBoundsMs.length + 1;
const stats: fc.Arbitrary<RouteStats> = fc.record(
  {
    id: fc.constant('r'),
    appId: fc.constant('a'),
    service: fc.constant('web'),
    sinceMs: count,
    requests: count,
    active: count,
    answers,
    refusals: fc.dictionary(fc.constantFrom('no-backends', 'rate-limited', 'backend-broke'), count, asParsed),
    clientsGone: count,
    brokenOff: count,
    retries: count,
    bytesIn: count,
    bytesOut: count,
    latency: fc.record({ counts: fc.array(count, { minLength: size, maxLength: size }), sumMs: count }, asParsed),
    backends: fc.uniqueArray(
      fc.record(
        {
          service: fc.constant('web'),
          address: fc.constantFrom('a:1', 'b:1', 'c:1'),
          isLeader: fc.boolean(),
          isLeaving: fc.boolean(),
          active: count,
          answers,
          failures: count,
          ejections: count,
          ejectedBy: fc.nat(1),
        },
        asParsed,
      ),
      { selector: (backend) => backend.address },
    ),
  },
  asParsed,
);

/** The order of backends and of codes says nothing. */
function sorted(sum: RouteStats): unknown {
  return { ...sum, backends: sum.backends.toSorted((a, b) => (a.address < b.address ? -1 : 1)) };
}

describe('what several routers counted', () => {
  test('sums up the same in any order and grouping, and stays what the schema says', () => {
    fc.assert(
      fc.property(stats, stats, stats, (a, b, c) => {
        const sum = sumRouteStats([a, b, c]);
        assert.deepEqual(sorted(sumRouteStats([c, sumRouteStats([b, a])])), sorted(sum));
        assert.deepEqual(routeStatsSchema.parse(sum), sum);
        assert.equal(sum.requests, a.requests + b.requests + c.requests);
        assert.equal(sum.sinceMs, Math.min(a.sinceMs, b.sinceMs, c.sinceMs));
      }),
    );
  });
});

describe('a percentile from buckets', () => {
  const counted = (...pairs: [index: number, count: number][]) => {
    const counts = Array.from({ length: size }, () => 0);
    for (const [index, number] of pairs) counts[index] = number;
    return { counts, sumMs: 0 };
  };

  test('lies in the bucket that holds it', () => {
    assert.equal(latencyAt(0.5, counted()), undefined);
    assert.equal(latencyAt(1, counted([0, 10])), 1);
    assert.equal(latencyAt(0.5, counted([0, 10])), 0.5);
    assert.equal(latencyAt(0.99, counted([0, 98], [3, 2])), 7.5);
    assert.equal(latencyAt(0.5, counted([size - 1, 1])), 30_000);
  });

  test('never falls when the share rises', () => {
    fc.assert(
      fc.property(
        stats,
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.double({ min: 0, max: 1, noNaN: true }),
        (s, a, b) => {
          const [low, high] = a < b ? [a, b] : [b, a];
          assert.ok((latencyAt(low, s.latency) ?? 0) <= (latencyAt(high, s.latency) ?? 0));
        },
      ),
    );
  });
});
