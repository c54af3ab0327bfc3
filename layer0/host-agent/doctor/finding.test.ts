import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { Sightings, examine, exitCodeOf, healthOf, lessThan, together } from './finding.ts';
import type { Finding, Found } from './finding.ts';

const found = (severity: Found['severity'], what = 'it is so'): Found => ({
  severity,
  subject: 'host h1',
  what,
  why: 'because',
  remedy: 'do something',
});
const finding = (what: string): Finding => ({ check: 'disks', ...found('warning', what) });
const { signal } = new AbortController();

test('a check that fails or hangs is told as unknown and holds up no other', async () => {
  const verdict = await examine(
    [
      { name: 'good', find: () => [found('warning')] },
      {
        name: 'bad',
        find: () => {
          throw new FlynnError('unavailable', 'nobody is there');
        },
      },
      { name: 'slow', find: () => new Promise(() => undefined) },
    ],
    { subject: 'host h1', deadlineMs: 50, signal },
  );
  assert.deepEqual(verdict.findings, [{ check: 'good', ...found('warning') }]);
  assert.deepEqual(verdict.unknown, [
    { check: 'bad', subject: 'host h1', why: 'nobody is there' },
    { check: 'slow', subject: 'host h1', why: 'no answer within 0.05 s' },
  ]);
});

test('who asked and went away gets no verdict', async () => {
  const gone = AbortSignal.abort(new FlynnError('cancelled', 'the client went away'));
  await assert.rejects(
    examine([{ name: 'any', find: () => [] }], { subject: 'x', deadlineMs: 1_000, signal: gone }),
    /went away/,
  );
});

test('what is worst counts and comes first; what is unknown is a warning', () => {
  const of = (findings: readonly Found[]) => ({
    findings: findings.map((one) => Object.assign({ check: 'c' }, one)),
    unknown: [],
  });
  const mixed = together([of([found('warning')]), of([found('critical')])]);
  assert.deepEqual(
    mixed.findings.map(({ severity }) => severity),
    ['critical', 'warning'],
  );
  const codes = [
    of([]),
    { findings: [], unknown: [{ check: 'c', subject: 's', why: 'w' }] },
    of([found('warning')]),
    mixed,
  ];
  assert.deepEqual(
    codes.map((verdict) => exitCodeOf(healthOf(verdict))),
    [0, 1, 1, 2],
  );
});

test('since when something is so is remembered over changing numbers, and forgotten once it is not', () => {
  const sightings = new Sightings();
  const since = (what: string, now: number) => sightings.dated([finding(what)], now)[0]?.since;
  assert.equal(since('it is 86 % full', 0), '1970-01-01T00:00:00.000Z');
  assert.equal(since('it is 87.5 % full', 60_000), '1970-01-01T00:00:00.000Z');
  const [hasty] = sightings.recalled([finding('it is 87 % full')], 90_000);
  assert.deepEqual([hasty?.since, sightings.recalled([], 90_000)], ['1970-01-01T00:00:00.000Z', []]);
  assert.equal(sightings.recalled([finding('it is read-only')], 90_000)[0]?.since, '1970-01-01T00:01:30.000Z');
  assert.equal(since('it is 87 % full', 100_000), '1970-01-01T00:00:00.000Z', 'a look in between forgets nothing');
  assert.equal(since('it is read-only', 110_000), '1970-01-01T00:01:50.000Z', 'nor does it remember');
  assert.deepEqual(sightings.dated([], 120_000), []);
  assert.equal(since('it is 88 % full', 180_000), '1970-01-01T00:03:00.000Z');
  assert.deepEqual(
    sightings.dated([], 190_000, (check) => check !== 'disks'),
    [],
  );
  assert.equal(
    since('it is 88 % full', 200_000),
    '1970-01-01T00:03:00.000Z',
    'what was not looked at is not forgotten',
  );
});

test('each in line is given less time than who asks it has', () => {
  assert.deepEqual([50, 72, 200, 900, 5_000].map(lessThan), [30, 43, 120, 800, 4_900], 'in whole milliseconds');
});
