/** What is told of how it goes: at once what is new, once a minute what changes all the time; and when it is a finding. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { autoscaleFindings } from './findings.ts';
import { settingsSchema } from './model.ts';
import { statusAfter, statusWithChange } from './report.ts';
import { figuresText, workOf } from './work.ts';
import type { Seen } from './work.ts';

const blind = { reason: 'blind', why: 'host k2 did not tell' } as const;
const change = { nowMs: 0, from: 1, to: 2, wanted: 2, figures: undefined, max: 10, downAfterMs: 300_000 };
const at = (nowMs: number) => new Date(nowMs).toISOString();
const figures = (wanted: number) => ({ wanted, figures: `cpu ${wanted}0% of 70%` });

test('what is seen is told once a minute, and only if it is another; why nothing is done at once', () => {
  const first = statusAfter({ changes: 0 }, { nowMs: 0, held: undefined, seen: figures(2) });
  assert.deepEqual(first, { changes: 0, seen: { at: at(0), ...figures(2) } });
  assert.equal(statusAfter(first, { nowMs: 59_999, held: undefined, seen: figures(3) }), first);
  assert.equal(statusAfter(first, { nowMs: 90_000, held: undefined, seen: figures(2) }), first);
  assert.equal(statusAfter(first, { nowMs: 90_000, held: undefined, seen: undefined }), first, 'the last one stays');
  assert.deepEqual(statusAfter(first, { nowMs: 60_000, held: undefined, seen: figures(3) }).seen, {
    at: at(60_000),
    ...figures(3),
  });
  const held = statusAfter(first, { nowMs: 10_000, held: blind, seen: undefined });
  assert.deepEqual(held.held, { ...blind, since: at(10_000) });
  const another = { ...blind, why: 'another' };
  assert.equal(statusAfter(held, { nowMs: 20_000, held: another, seen: undefined }), held);
  const renewed = statusAfter(held, { nowMs: 70_000, held: another, seen: undefined });
  assert.deepEqual(renewed.held, { ...another, since: at(10_000), at: at(70_000) }, 'another why once a minute');
  assert.equal(statusAfter(renewed, { nowMs: 129_999, held: blind, seen: undefined }), renewed);
  const later = statusAfter(held, { nowMs: 90_000, held: blind, seen: figures(4) });
  assert.deepEqual([later.held?.since, later.seen?.wanted], [at(10_000), 4], 'since when stays');
  assert.equal(statusAfter(held, { nowMs: 20_000, held: undefined, seen: undefined }).held, undefined);
  const changed = statusWithChange(held, { ...change, nowMs: 5, from: 1, to: 2, wanted: 2 });
  assert.deepEqual(changed, {
    changes: 1,
    seen: first.seen,
    last: { at: at(5), from: 1, to: 2, why: 'outside of its range' },
  });
});

test('a change says why it is to that count, where that is not what is wanted now', () => {
  const why = (from: number, to: number, wanted: number) =>
    statusWithChange({ changes: 0 }, { ...change, from, to, wanted, figures: 'cpu 9% of 70%' }).last?.why;
  assert.equal(why(5, 3, 1), '1 wanted, at most 3 in the last 5m: a job has cpu 9% of 70%');
  assert.equal(why(5, 3, 3), '3 wanted: a job has cpu 9% of 70%');
  assert.equal(why(1, 5, 8), '8 wanted, in steps: a job has cpu 9% of 70%');
  assert.equal(why(8, 10, 12), '12 wanted: a job has cpu 9% of 70%', 'the range is told beside it');
});

test('work is in jobs’ worth: of what is unknown there may be any, of a job that has begun its share', () => {
  const settings = settingsSchema.parse({ max: 9, cpuPercent: 50, requestsPerSecond: 10, requestsInFlight: 4 });
  const seen: Seen = {
    count: 4,
    cpu: { measured: 3, cores: 1.5 },
    hasSilentHosts: false,
    perSecond: { value: 70, most: 74, doubt: undefined },
    inFlight: undefined,
    running: 4,
  };
  const work = workOf(settings, { cpuMillis: 1_000 }, seen);
  assert.deepEqual(
    work.map(({ load }) => load),
    [
      { low: 3, high: 4 },
      { low: 7, high: 7.4 },
      { low: 0, high: Infinity },
    ],
  );
  assert.equal(figuresText(work), 'cpu 50% of 50%, 18 of 10 requests/s');
  const partly: Seen['perSecond'] = { value: 70, most: 70, doubt: 'part' };
  for (const requests of [{ perSecond: partly }, { running: 3 }, { running: 0 }]) {
    const unknown = workOf(settings, { cpuMillis: 500 }, { ...seen, hasSilentHosts: true, ...requests });
    assert.deepEqual(
      unknown.map(({ load }) => load.high),
      [Infinity, Infinity, Infinity],
    );
  }
  const idle = { ...seen, perSecond: { value: 5, most: 5, doubt: undefined } };
  const few = { max: 9, requestsPerSecond: 10 };
  const highOf = (running: number) =>
    workOf(settingsSchema.parse(few), { cpuMillis: 0 }, { ...idle, running })[0]?.load.high;
  assert.deepEqual([highOf(3), highOf(1), highOf(0)], [0.5, 0.5, Infinity], 'who has little to do needs no help');
  assert.equal(
    figuresText(workOf(settings, { cpuMillis: 1 }, { ...seen, cpu: { measured: 0, cores: 0 }, perSecond: undefined })),
    undefined,
  );
});

test('what could not be measured for ten minutes is a finding', () => {
  const spec = { ...settingsSchema.parse({ max: 9, cpuPercent: 50 }), appId: 'a', type: 'web' };
  const find = (held: object, now: number) =>
    autoscaleFindings([{ spec, status: { changes: 0, held: { ...blind, since: at(0), ...held } } }], {
      now,
      nameOf: (id) => (id === 'a' ? 'shop' : undefined),
    });
  assert.deepEqual(find({}, 599_999), []);
  const [found] = find({}, 600_000);
  assert.equal(found?.subject, 'app shop');
  assert.match(found?.what ?? '', /web is to be scaled by itself, .*: host k2 did not tell$/);
  assert.deepEqual(find({ reason: 'off' }, 600_000), []);
  assert.deepEqual(autoscaleFindings([{ spec, status: { changes: 0 } }], { now: 0, nameOf: () => undefined }), []);
});
