import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { asFlynnError } from '@flynn/kit/errors';
import {
  isUsageError,
  parseAssignments,
  parseCounts,
  formatEnvFile,
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
});

test('numbers keep to their limits', () => {
  const limits = { what: 'a port', min: 1, max: 65_535 };
  assert.equal(parseWhole('443', limits), 443);
  for (const text of ['0', '65536', '-1', '1e3', '', 'x', ' 5']) {
    assertUsage(() => parseWhole(text, limits), /is not a port: write a number from 1 to 65535/);
  }
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

test('a .env file is read with its comments, quotes and line ends', () => {
  const text = [
    '# a comment, with an = sign',
    'PLAIN=value',
    '  export SPACED = around  # why',
    'EMPTY=',
    'EMPTY_TOO= # nothing',
    'PASSWORD=a#b$c',
    `APOSTROPHE=it's`,
    "SINGLE='as is \\n $X \"' # said",
    String.raw`DOUBLE="tab\t, line\nbreak, \"quoted\", \\, \$X"`,
    'LINES="one',
    'A=not a variable',
    'three"',
    'UNICODE=é漢',
    'WINDOWS=yes\r',
    'LAST=1',
  ].join('\n');
  assert.deepEqual(parseEnvFile(`\u{feff}${text}`), {
    PLAIN: 'value',
    SPACED: 'around',
    EMPTY: '',
    EMPTY_TOO: '',
    PASSWORD: 'a#b$c',
    APOSTROPHE: "it's",
    SINGLE: 'as is \\n $X "',
    DOUBLE: 'tab\t, line\nbreak, "quoted", \\, $X',
    LINES: 'one\nA=not a variable\nthree',
    UNICODE: 'é漢',
    WINDOWS: 'yes',
    LAST: '1',
  });
});

test('what is in single quotes in a .env file comes out as it went in', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: 'binary' }).filter((value) => !value.includes("'")),
      (value) => {
        assert.deepEqual(parseEnvFile(`A=1\nKEY='${value}'\nZ=2\n`), { A: '1', KEY: value, Z: '2' });
      },
    ),
  );
});

test('a line of a .env file that sets nothing is refused by its number and name, and its value is not told', () => {
  assert.throws(() => parseEnvFile('A=1\nsecret here\n'), /^FlynnError: line 2 of the file sets nothing: (?!.*secret)/);
  assert.throws(() => parseEnvFile('A="never closed\n'), /^FlynnError: line 1 \(A=…\) of the file (?!.*never)/);
  assert.throws(
    () => parseEnvFile(`B=2\n\nexport A= 'never closed\n`),
    /^FlynnError: line 3 \(A=…\) of the file (?!.*never)/,
  );
});

test('a .env file that was written is read as it was, whatever the values hold', () => {
  const name = fc.stringMatching(/^[A-Z_][A-Z0-9_]{0,8}$/);
  const value = fc.string({ unit: 'binary' }).filter((text) => !text.includes('\0'));
  fc.assert(
    fc.property(fc.dictionary(name, value), (values) => {
      assert.deepEqual({ ...parseEnvFile(formatEnvFile(values)) }, { ...values });
    }),
    { numRuns: 500 },
  );
  const written = formatEnvFile({ PLAIN: 'a/b', SPACED: 'a b #c $d', QUOTED: `it's "so"\n`, EMPTY: '' });
  assert.equal(written, `EMPTY=''\nPLAIN=a/b\nQUOTED="it's \\"so\\"\\n"\nSPACED='a b #c $d'\n`);
});
