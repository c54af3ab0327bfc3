import assert from 'node:assert/strict';
import { test } from 'node:test';
import { latencyBoundsMs } from '@flynn/controller/routes/latency';
import type { RouteStats } from '@flynn/controller/routes/stats';
import type { Status } from '../api.ts';
import { Past } from './past.ts';

const none = { '1xx': 0, '2xx': 0, '3xx': 0, '4xx': 0, '5xx': 0 };
const backend = { service: 'web', address: '10.0.0.1:80', isLeader: true, isLeaving: false };

function statsOf(id: string, requests: number, more: Partial<RouteStats> = {}): RouteStats {
  return {
    id,
    appId: 'a',
    service: 'web',
    sinceMs: 5,
    requests,
    active: 0,
    answers: { ...none, '2xx': requests },
    refusals: {},
    clientsGone: 0,
    brokenOff: 0,
    retries: 0,
    bytesIn: 0,
    bytesOut: 10 * requests,
    latency: { counts: [requests, ...latencyBoundsMs.map(() => 0)], sumMs: requests },
    backends: [
      { ...backend, active: 1, answers: { ...none, '2xx': requests }, failures: 1, ejections: 0, ejectedBy: 1 },
    ],
    ...more,
  };
}

function statusOf(requests: number): Status {
  return {
    hasRoutes: true,
    routes: { http: 1, tcp: 0 },
    backends: [],
    tls: { certificates: 1, expired: [], handshakes: requests, failures: 1, unknownNames: 0 },
    counters: {
      requests,
      upgrades: 0,
      tcpConnections: 0,
      dialFailures: 0,
      retries: 0,
      clientsGone: 0,
      refusals: { busy: 1 },
    },
  };
}

test('of apps, what those that have left counted stays in the sum as long as the route is there', () => {
  const past = new Past();
  const answers = { ...none, '2xx': 1, '4xx': 2, '5xx': 3 };
  past.add({ status: statusOf(2), stats: [statsOf('r', 6, { answers, active: 4 }), statsOf('gone', 7)] });
  const [part, ...more] = past.apps(new Set(['gone']));
  assert.deepEqual(more, []);
  const { latency, ...counts } = part ?? assert.fail();
  const told = { appId: 'a', routes: 1, sinceMs: 5, requests: 6, active: 0, clientErrors: 2, serverErrors: 3 };
  assert.deepEqual([counts, latency[0]], [told, 6]);
});

test('without anybody who left, what is there is all', () => {
  const past = new Past();
  assert.deepEqual(past.status(statusOf(3)), statusOf(3));
  assert.deepEqual(past.stats([statsOf('r', 3)]), [statsOf('r', 3)]);
});

test('what those counted that have left stays in every sum, and nothing of what was so then', () => {
  const past = new Past();
  past.add({ status: statusOf(2), stats: [statsOf('r', 2), statsOf('gone', 7)] });
  past.add({ status: statusOf(4), stats: [statsOf('r', 4, { sinceMs: 1, active: 3 })] });
  const status = past.status({ ...statusOf(1), hasRoutes: false });
  assert.equal(status.counters.requests, 7);
  assert.deepEqual(status.counters.refusals, { busy: 3 });
  assert.deepEqual(status.tls, { certificates: 1, expired: [], handshakes: 7, failures: 3, unknownNames: 0 });
  assert.equal(status.hasRoutes, false);
  const [sum, ...more] = past.stats([statsOf('r', 1)]);
  assert.deepEqual(more, []);
  assert.equal(sum?.requests, 7);
  assert.equal(sum?.sinceMs, 1);
  assert.equal(sum?.active, 0);
  assert.equal(sum?.bytesOut, 70);
  assert.deepEqual(
    sum?.backends.map(({ active, answers, failures, ejectedBy }) => [active, answers['2xx'], failures, ejectedBy]),
    [[1, 7, 3, 1]],
  );
});

test('backends that are gone do not come back, nor routes', () => {
  const past = new Past();
  past.add({ status: statusOf(2), stats: [statsOf('r', 2), statsOf('gone', 7)] });
  assert.deepEqual(past.stats([statsOf('r', 1, { backends: [] })])[0]?.backends, []);
  assert.deepEqual(past.routes, ['r', 'gone']);
  past.forget(['gone']);
  assert.deepEqual(past.routes, ['r']);
});
