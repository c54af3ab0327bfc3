import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { routeStatsSchema } from '@flynn/controller/routes/stats';
import { prometheusText } from './prometheus.ts';
import { RouteSeries } from './route-series.ts';
import { statsOf, statsOfAll } from './stats.ts';
import { World, ended } from './testing.ts';

/** Every line by what stands before its value; fails on what is not a line of the format. */
function samplesOf(text: string): Map<string, number> {
  const samples = new Map<string, number>();
  for (const line of text.trimEnd().split('\n')) {
    if (/^# (?:HELP|TYPE) flynn_router_[a-z_]+ \S/.test(line)) continue;
    const [, series = '', value] =
      /^([a-z_]+(?:\{(?:[a-z]+="(?:[^"\\]|\\.)*",?)+\})?) (\d+(?:\.\d+)?)$/.exec(line) ?? [];
    assert.ok(value !== undefined, line);
    assert.ok(!samples.has(series), `twice: ${series}`);
    samples.set(series, Number(value));
  }
  return samples;
}

describe('what a router tells of its routes', () => {
  test('is what happened', async () => {
    const world = new World();
    await world.serve({}, ['10.0.0.1:80 r1']);
    await world.serve({ id: 'unused', domain: 'unused.test' });
    await world.serve({}, ['10.0.0.1:80 r1']);
    await world.get({}, 200);
    const exchange = world.exchange();
    const backend = await exchange.pick();
    assert.ok(backend !== undefined);
    exchange.failed(backend, 'late');
    world.nowMs += 40;
    const open = statsOfAll(world.routes.counted()).find(({ id }) => id === 'r');
    assert.deepEqual([open?.requests, open?.active, open?.backends[0]?.active], [1, 1, 1]);
    exchange.answerFor('backend-late');
    exchange.end(ended(504, { bytesIn: 3, bytesOut: 5 }));
    world.exchange().end(ended(0, { how: 'client-gone' }));

    const all = statsOfAll(world.routes.counted());
    assert.deepEqual(
      all.map(({ id }) => id),
      ['r'],
    );
    const [stats] = all;
    assert.ok(stats !== undefined);
    assert.deepEqual(routeStatsSchema.parse(stats), stats);
    assert.deepEqual(
      { ...stats, latency: stats.latency.counts.indexOf(1) },
      {
        id: 'r',
        appId: 'a',
        service: 'web',
        sinceMs: world.nowMs - 40,
        requests: 3,
        active: 0,
        answers: { '1xx': 0, '2xx': 1, '3xx': 0, '4xx': 0, '5xx': 1 },
        refusals: { 'backend-late': 1 },
        clientsGone: 1,
        brokenOff: 0,
        retries: 0,
        bytesIn: 3,
        bytesOut: 5,
        latency: 5,
        backends: [
          {
            service: 'web',
            address: '10.0.0.1:80',
            release: 'r1',
            isLeader: true,
            isLeaving: false,
            active: 0,
            answers: { '1xx': 0, '2xx': 1, '3xx': 0, '4xx': 0, '5xx': 0 },
            failures: 1,
            ejections: 0,
            ejectedBy: 0,
          },
        ],
      },
    );
    assert.deepEqual(statsOfAll(world.routes.counted(), 'another app'), []);

    const samples = samplesOf(prometheusText(all, world.counters));
    const labels = 'route="r",app="a",service="web"';
    for (const [series, value] of [
      [`flynn_router_route_requests_total{${labels}}`, 3],
      [`flynn_router_route_answers_total{${labels},status="5xx"}`, 1],
      [`flynn_router_route_refusals_total{${labels},code="backend-late"}`, 1],
      [`flynn_router_route_duration_seconds_bucket{${labels},le="0.025"}`, 2],
      [`flynn_router_route_duration_seconds_bucket{${labels},le="0.05"}`, 3],
      [`flynn_router_route_duration_seconds_bucket{${labels},le="+Inf"}`, 3],
      [`flynn_router_route_duration_seconds_sum{${labels}}`, 0.04],
      [`flynn_router_route_duration_seconds_count{${labels}}`, 3],
      ['flynn_router_backend_failures_total{service="web",backend="10.0.0.1:80"}', 1],
      ['flynn_router_refusals_total{code="backend-late"}', 1],
      ['flynn_router_requests_total', 3],
    ] as const) {
      assert.equal(samples.get(series), value, series);
    }
  });

  test('counts of a route survive its change, and not its removal', async () => {
    const world = new World();
    await world.serve();
    await world.get();
    const route = await world.serve({ http: { sticky: true } });
    assert.equal(world.routes.get('r')?.figures.requests, 1);
    world.routes.remove('r');
    world.routes.set(route);
    assert.equal(world.routes.get('r')?.figures.requests, 0);
  });

  test('has a bounded number of series, and loses no request for it', async () => {
    const world = new World();
    const route = await world.serve();
    for (let i = 0; i < 1_200; i += 1) {
      world.routes.set({ ...route, id: `r${i}`, domain: `a${i}.test` });
      world.exchange({ host: `a${i}.test` }).end(ended(200));
    }
    const all = statsOfAll(world.routes.counted());
    assert.equal(all.length, 1_200);
    const samples = [...samplesOf(prometheusText(new RouteSeries().bounded(all), world.counters))];
    const counts = samples.filter(([series]) => series.startsWith('flynn_router_route_requests_total'));
    assert.equal(counts.length, 500);
    assert.equal(
      counts.reduce((sum, [, count]) => sum + count, 0),
      1_200,
    );
  });

  test('of a route that had no request is nothing but noughts', async () => {
    const world = new World();
    await world.serve();
    const route = world.routes.get('r');
    assert.ok(route !== undefined);
    assert.equal(statsOf(route).requests, 0);
  });
});
