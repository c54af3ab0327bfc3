import assert from 'node:assert/strict';
import { test } from 'node:test';
import { handle } from '@flynn/kit/http-server';
import { startLoopback } from '@flynn/kit/loopback';
import { routes as logRoutes } from '@flynn/log-aggregator/api';
import { drains } from '../drains/api.ts';
import { apps } from '../api.ts';
import { startTestController } from '../testing.ts';
import { drainCheck, drainFindings } from './drains.ts';

const now = Date.parse('2026-06-01T12:00:00Z');
const minutesAgo = (minutes: number) => new Date(now - minutes * 60_000).toISOString();
const counts = { sent: 7, failed: 0, skipped: 0, waiting: 0 };
const error = 'cannot reach 192.0.2.1:6514: connect ECONNREFUSED';

test('a drain to which nothing goes for ten minutes is told of, one that was away for a moment is not', () => {
  const drains = [
    { id: 'd1', url: 'syslog+tcp://192.0.2.1:6514', appName: 'shop' },
    { id: 'd2', url: 'https://***@logs.example.com/x', appName: undefined },
    { id: 'd3', url: 'https://logs.example.com/y', appName: 'shop' },
    { id: 'd4', url: 'https://logs.example.com/z', appName: 'shop' },
  ];
  const statuses = [
    { id: 'd1', ...counts, waiting: 12, error, since: minutesAgo(10) },
    { id: 'd2', ...counts, waiting: 9, skipped: 3, error: 'logs.example.com answered 503', since: minutesAgo(60) },
    { id: 'd3', ...counts, waiting: 12, error, since: minutesAgo(9) },
    { id: 'd4', ...counts },
  ];
  const found = drainFindings(drains, statuses, now);
  assert.deepEqual(
    found.map(({ severity, subject, what, since }) => [severity, subject, what, since]),
    [
      [
        'warning',
        'drain d1',
        `nothing of shop goes to syslog+tcp://192.0.2.1:6514: ${error}; 12 lines wait`,
        minutesAgo(10),
      ],
      [
        'warning',
        'drain d2',
        'nothing of all apps goes to https://***@logs.example.com/x: logs.example.com answered 503; 9 lines wait, 3 are lost',
        minutesAgo(60),
      ],
    ],
  );
});

test('lines that were given up or lost are told for a day, of a drain that takes others too', () => {
  const drains = [{ id: 'd1', url: 'https://logs.example.com/x', appName: 'shop' }];
  const missed = (count: number, minutes: number, why: string) => ({ count, at: minutesAgo(minutes), why });
  const found = (change: object) =>
    drainFindings(drains, [{ id: 'd1', ...counts, ...change }], now).map(({ severity, what, since }) => {
      return [severity, what, since];
    });
  const gaveUp = missed(2, 23 * 60, 'logs.example.com answered 400');
  const lost = missed(1, 5, 'they were deleted to make room');
  assert.deepEqual(found({ failed: 2, skipped: 1, gaveUp, lost }), [
    [
      'warning',
      '2 lines of shop were given up, https://logs.example.com/x refused them for good: logs.example.com answered 400',
      gaveUp.at,
    ],
    ['warning', '1 line of shop was lost to https://logs.example.com/x: they were deleted to make room', lost.at],
  ]);
  const damaged = missed(3, 5, 'the disk did not keep them');
  assert.deepEqual(found({ skipped: 3, damaged }), [
    ['warning', '3 lines of shop never get to https://logs.example.com/x: the disk did not keep them', damaged.at],
  ]);
  const [told] = drainFindings(drains, [{ id: 'd1', ...counts, skipped: 3, damaged }], now);
  assert.match(
    `${told?.matter}: ${told?.why}; ${told?.remedy}`,
    /^damaged: .*the receiver is not the reason.*disk of the host/,
  );
  assert.deepEqual(found({ failed: 2, gaveUp: missed(2, 24 * 60, 'answered 400') }), []);
});

test('the log aggregator is asked where there are drains; that it is away is for others to tell', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  const { client, deps } = world;
  const signal = AbortSignal.timeout(60_000);
  await client.call(apps.create, { body: { name: 'shop' } });
  const body = { app: 'shop', url: 'https://user:secret@logs.example.com/x' };
  const { id } = await client.call(drains.create, { body });
  const status = {
    id,
    ...counts,
    error: 'connect ECONNREFUSED',
    since: new Date(deps.now() - 3_600_000).toISOString(),
  };
  await using logs = await startLoopback([handle(logRoutes.drains, async () => [status])]);
  const check = drainCheck(deps, logs.client);
  const [found, ...more] = await check.find(signal);
  assert.deepEqual(more, []);
  assert.match(
    found?.what ?? '',
    /^nothing of shop goes to https:\/\/\*{3}@logs\.example\.com\/x: connect ECONNREFUSED; 0 lines wait$/,
  );
  assert.doesNotMatch(found?.what ?? '', /secret/);
  await logs.server.close();
  assert.deepEqual(await check.find(signal), []);
});
