import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import * as fc from 'fast-check';
import { lastTick, nextTick, parseSchedule } from './schedule.ts';

const iso = (ms: number | undefined) => (ms === undefined ? undefined : new Date(ms).toISOString().slice(0, 16));

/** The next three after the moment, in UTC. */
function following(line: string, after: string, timezone?: string): (string | undefined)[] {
  const schedule = parseSchedule(line, timezone);
  const ticks: (string | undefined)[] = [];
  let at: number | undefined = Date.parse(`${after}Z`);
  for (let n = 0; n < 3 && at !== undefined; n += 1) {
    at = nextTick(schedule, at);
    ticks.push(iso(at));
  }
  return ticks;
}

/** A line, after when it is looked at, the next three, and its zone where it is not UTC. */
const table: readonly [line: string, after: string, ticks: string, zone?: string][] = [
  ['* * * * *', '2026-01-31T23:58', '2026-01-31T23:59 2026-02-01T00:00 2026-02-01T00:01'],
  ['30 3 * * *', '2026-01-01T03:30', '2026-01-02T03:30 2026-01-03T03:30 2026-01-04T03:30'],
  ['*/20 8-9 * * *', '2026-01-01T08:30', '2026-01-01T08:40 2026-01-01T09:00 2026-01-01T09:20'],
  ['0 0 29 2 *', '2026-01-01T00:00', '2028-02-29T00:00 2032-02-29T00:00 2036-02-29T00:00'],
  ['0 9 * * mon-fri', '2026-01-02T10:00', '2026-01-05T09:00 2026-01-06T09:00 2026-01-07T09:00'],
  ['0 0 13 * FRI', '2026-02-07T00:00', '2026-02-13T00:00 2026-02-20T00:00 2026-02-27T00:00'],
  ['0 0 * * 7', '2026-01-01T00:00', '2026-01-04T00:00 2026-01-11T00:00 2026-01-18T00:00'],
  ['5,10 0 1 jan,jul ?', '2026-01-01T00:05', '2026-01-01T00:10 2026-07-01T00:05 2026-07-01T00:10'],
  ['10/25 * * * *', '2026-01-01T00:00', '2026-01-01T00:10 2026-01-01T00:35 2026-01-01T01:10'],
  ['@daily', '2026-01-01T00:00', '2026-01-02T00:00 2026-01-03T00:00 2026-01-04T00:00'],
  ['CRON_TZ=Asia/Kolkata 0 0 * * *', '2026-01-01T00:00', '2026-01-01T18:30 2026-01-02T18:30 2026-01-03T18:30'],
  // Berlin: on 29 March 2026 the clocks go from 02:00 to 03:00, at 01:00 UTC.
  ['30 2 * * *', '2026-03-28T02:00', '2026-03-29T01:00 2026-03-30T00:30 2026-03-31T00:30', 'Europe/Berlin'],
  ['30 * * * *', '2026-03-29T00:00', '2026-03-29T00:30 2026-03-29T01:30 2026-03-29T02:30', 'Europe/Berlin'],
  // On 25 October 2026 they go from 03:00 back to 02:00, at 01:00 UTC.
  ['30 2 * * *', '2026-10-24T12:00', '2026-10-25T00:30 2026-10-26T01:30 2026-10-27T01:30', 'Europe/Berlin'],
  ['30 * * * *', '2026-10-24T23:45', '2026-10-25T00:30 2026-10-25T01:30 2026-10-25T02:30', 'Europe/Berlin'],
  ['0 0 * * *', '2018-11-03T12:00', '2018-11-04T03:00 2018-11-05T02:00 2018-11-06T02:00', 'America/Sao_Paulo'],
  ['30 2 * * *', '2026-10-02T00:00', '2026-10-02T16:00 2026-10-03T15:30 2026-10-04T15:30', 'Australia/Lord_Howe'],
];

for (const [line, after, ticks, zone] of table) {
  test(`${line}${zone === undefined ? '' : ` in ${zone}`} after ${after}`, () => {
    assert.deepEqual(following(line, after, zone), ticks.split(' '));
  });
}

const wrong = [
  { line: '* * * *', why: /has 4 fields; write five/ },
  { line: '', why: /has 0 fields/ },
  { line: '60 * * * *', why: /has "60" as minute: it goes from 0 to 59/ },
  { line: '* 5-3 * * *', why: /has "5-3" as hour, which ends before it begins/ },
  { line: '*/0 * * * *', why: /which is nothing/ },
  { line: '* * * foo *', why: /has "foo" as month/ },
  { line: '0 0 31 2 *', why: /never falls due/ },
  { line: 'TZ=Mars/Base * * * * *', why: /time zone "Mars\/Base"/ },
];

for (const { line, why } of wrong) {
  test(`"${line}" is refused with the reason`, () => {
    assert.throws(
      () => parseSchedule(line),
      (error: unknown) => hasCode(error, 'invalid') && why.test(error.message),
    );
  });
}

test('the last tick of a span is found however long it is, and none that was there before', () => {
  const last = (line: string, after: string, until: string) =>
    iso(lastTick(parseSchedule(line), { afterMs: Date.parse(`${after}Z`), untilMs: Date.parse(`${until}Z`) }));
  assert.equal(last('0 3 * * *', '2026-01-01T00:00', '2026-01-10T02:00'), '2026-01-09T03:00');
  assert.equal(last('0 3 * * *', '2026-01-09T03:00', '2026-01-10T02:00'), undefined);
  assert.equal(last('0 3 * * *', '2026-01-09T03:00', '2026-01-10T03:00'), '2026-01-10T03:00');
  assert.equal(last('0 0 29 2 *', '2025-01-01T00:00', '2032-01-01T00:00'), '2028-02-29T00:00');
  assert.equal(last('* * * * *', '2026-01-01T00:00', '2025-01-01T00:00'), undefined, 'the clock was put back');
});

test('the last tick is the one that the next ticks lead to', () => {
  const zones = fc.constantFrom('UTC', 'Europe/Berlin', 'America/New_York', 'Asia/Kolkata', 'Australia/Lord_Howe');
  const lines = fc.constantFrom('*/7 * * * *', '15 2,3 * * *', '0 0 * * *', '59 23 * * 0', '30 1 1,15 * *');
  const span = fc.tuple(fc.integer({ min: 0, max: 365 * 24 * 60 }), fc.integer({ min: 1, max: 3 * 24 * 60 }));
  fc.assert(
    fc.property(zones, lines, span, (zone, line, [start, length]) => {
      const schedule = parseSchedule(line, zone);
      const afterMs = Date.UTC(2026, 0, 1) + start * 60_000;
      const untilMs = afterMs + length * 60_000;
      let found: number | undefined;
      for (let at = nextTick(schedule, afterMs); at !== undefined && at <= untilMs; at = nextTick(schedule, at))
        found = at;
      assert.equal(iso(lastTick(schedule, { afterMs, untilMs })), iso(found));
    }),
    { numRuns: 60, seed: 11 },
  );
});
