import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { asFlynnError } from '@flynn/kit/errors';
import {
  isUsageError,
  parseAssignments,
  parseCounts,
  parseDurationMs,
  parseEnvFile,
  parseTime,
  parseWhole,
} from './arguments.ts';

function assertUsage(work: () => unknown, message: RegExp): void {
  assert.throws(work, (error) => isUsageError(asFlynnError(error)) && message.test(asFlynnError(error).message));
}

test('counts are read by process type', () => {
  assert.deepEqual(parseCounts(['web=3', 'worker=0']), { web: 3, worker: 0 });
  assert.deepEqual(parseCounts([]), {});
});

test('a count that is no whole number from zero up is wrong usage and named', () => {
  assertUsage(() => parseCounts(['web=-1']), /web=-1/);
  assertUsage(() => parseCounts(['web=many']), /"many"/);
  assertUsage(() => parseCounts(['web=1.5']), /"1.5"/);
  assertUsage(() => parseCounts(['web=']), /""/);
  assertUsage(() => parseCounts(['web']), /TYPE=COUNT/);
  assertUsage(() => parseCounts(['=3']), /TYPE=COUNT/);
  assertUsage(() => parseCounts(['web=1', 'worker=1', 'web=2']), /web has two counts/);
});

test('numbers keep to their limits', () => {
  const limits = { what: 'a port', min: 1, max: 65_535 };
  assert.equal(parseWhole('443', limits), 443);
  for (const text of ['0', '65536', '-1', '1e3', '', 'x', ' 5']) {
    assertUsage(() => parseWhole(text, limits), /is not a port: write a number from 1 to 65535/);
  }
});

test('a length of time has a unit: nobody who writes 30 means milliseconds', () => {
  assert.equal(parseDurationMs('250ms'), 250);
  assert.equal(parseDurationMs('30s'), 30_000);
  assert.equal(parseDurationMs('0'), 0);
  for (const text of ['30', '1', '0300', '31536000']) {
    assertUsage(() => parseDurationMs(text), /has no unit: write \d+s, \d+m, \d+h or \d+d$/);
  }
  assertUsage(() => parseDurationMs('soon'), /is no length of time/);
  assertUsage(() => parseDurationMs('99999999d'), /"99999999d" is more than a hundred years/);
});

test('a time without a zone is in UTC, wherever whoever types it stands', () => {
  const before = process.env['TZ'];
  process.env['TZ'] = 'Asia/Tokyo';
  try {
    for (const [text, time] of [
      ['2030-01-31T12:00', '2030-01-31T12:00:00.000Z'],
      ['2030-01-31 12:00:30.5', '2030-01-31T12:00:30.500Z'],
      ['2030-01-31t12:00z', '2030-01-31T12:00:00.000Z'],
      ['2030-01-31', '2030-01-31T00:00:00.000Z'],
      ['2030-01-31T12:00+0200', '2030-01-31T10:00:00.000Z'],
      ['2030-01-31T12:00-05:00', '2030-01-31T17:00:00.000Z'],
      ['2028-02-29', '2028-02-29T00:00:00.000Z'],
      ['2h', '2030-01-31T10:00:00.000Z'],
    ] as const) {
      assert.equal(parseTime(text, Date.parse('2030-01-31T12:00:00Z')), time, text);
    }
  } finally {
    if (before === undefined) delete process.env['TZ'];
    else process.env['TZ'] = before;
  }
});

test('what is no day, no time of a day or too long ago is wrong usage', () => {
  const wrong = [
    '2026-02-30T10:00Z',
    '2026-02-29',
    '2026-04-31',
    '2026-13-01',
    '2026-01-01T25:00',
    '2026-01-01T10:61Z',
  ];
  for (const text of [...wrong, '2026-01-01T10:00+99:99', '', 'T10:00', '10', '99999999999d']) {
    assertUsage(() => parseTime(text, Date.now()), /is no time: write how long ago/);
  }
});

test('an assignment keeps every character after its first =', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (value) => {
      assert.deepEqual(parseAssignments([`KEY=${value}`]), { KEY: value });
    }),
  );
});

test('an assignment without a name, without a value or with a name no shell takes is wrong usage', () => {
  assertUsage(() => parseAssignments(['=x']), /NAME=VALUE/);
  assertUsage(() => parseAssignments(['NAME']), /NAME=VALUE/);
  assertUsage(() => parseAssignments(['1BAD=x']), /"1BAD"/);
  assertUsage(() => parseAssignments(['A-B=x']), /"A-B"/);
});

test('a name that objects know already is a variable like any other', () => {
  assert.deepEqual(Object.entries(parseAssignments(['__proto__=x'])), [['__proto__', 'x']]);
});

test('a .env file is read, and one with a line that sets nothing is refused without a value being told', () => {
  assert.deepEqual(parseEnvFile(`A=1 # note\nKEY="one\ntwo"\n`), { A: '1', KEY: 'one\ntwo' });
  assert.throws(() => parseEnvFile('A=1\nsecret here\n'), /^FlynnError: line 2 of the file sets nothing: (?!.*secret)/);
});
