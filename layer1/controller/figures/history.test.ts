import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FiguresHistory } from './history.ts';
import type { Sample, TypeRow } from './history.ts';
import { requestFields, typeFields } from './model.ts';
import type { RequestRow } from './requests.ts';
import { Ring, stepsKept } from './ring.ts';

const mebibyte = 1024 ** 2;
const nan = Number.NaN;
const none: RequestRow = {
  perSecond: 0,
  clientErrorsPerSecond: 0,
  serverErrorsPerSecond: 0,
  inFlight: 0,
  p50Ms: nan,
  p95Ms: nan,
  p99Ms: nan,
};
const up = (jobs = 1): TypeRow => ({ jobs, cpu: jobs / 2, memoryBytes: jobs * mebibyte, memoryLimitBytes: nan });

function sampleOf(
  apps: Readonly<Record<string, Readonly<Record<string, TypeRow>>>>,
  perSecond: Readonly<Record<string, number>> = {},
): Sample {
  const rows = new Map(Object.entries(perSecond).map(([id, value]) => [id, { ...none, perSecond: value }]));
  return {
    appIds: new Set(Object.keys(apps)),
    types: new Map(Object.entries(apps).map(([id, types]) => [id, new Map(Object.entries(types))])),
    requests: { rows, others: none, leftOut: new Set() },
  };
}

const bytesOf = (...all: readonly (readonly string[])[]) =>
  all.reduce((sum, fields) => sum + new Ring(fields).bytes, 0);

test('a type is told from its first job on, then that it has none, and an hour later not at all', () => {
  const history = new FiguresHistory(mebibyte);
  history.note(100, sampleOf({ a: {} }));
  assert.equal(history.of('a'), undefined);
  history.note(101, sampleOf({ a: { web: up(2) } }));
  history.note(103, sampleOf({ a: {} }));
  assert.deepEqual(history.of('a')?.types.get('web')?.column('jobs', 100, 103), [nan, 2, nan, 0]);
  assert.deepEqual(history.span, { first: 100, last: 103 });
  history.note(101 + stepsKept - 1, sampleOf({ a: {} }));
  assert.equal(history.of('a')?.types.size, 1);
  history.note(101 + stepsKept, sampleOf({ a: {} }));
  assert.deepEqual([history.of('a'), history.bytes], [undefined, 0]);
});

test('requests take room once there is one, and give it back an hour after the last', () => {
  const history = new FiguresHistory(mebibyte);
  const idle = () => sampleOf({ a: { web: up() } });
  history.note(10, idle());
  assert.deepEqual([history.of('a')?.requests, history.bytes], [undefined, bytesOf(typeFields)]);
  history.note(11, sampleOf({ a: { web: up() } }, { a: 3 }));
  assert.equal(history.bytes, bytesOf(typeFields, requestFields));
  history.note(12, idle());
  assert.deepEqual(history.of('a')?.requests?.column('perSecond', 10, 12), [nan, 3, 0]);
  for (let step = 13; step <= 11 + stepsKept; step += 1) history.note(step, idle());
  assert.deepEqual([history.of('a')?.requests, history.bytes], [undefined, bytesOf(typeFields)]);
});

test('an app that is deleted leaves nothing', () => {
  const history = new FiguresHistory(mebibyte);
  history.note(1, sampleOf({ a: { web: up(), worker: up() }, b: { web: up() } }, { a: 1 }));
  history.note(2, sampleOf({ b: { web: up() } }));
  assert.deepEqual([history.of('a'), history.bytes], [undefined, bytesOf(typeFields)]);
});

test('where the room is full, what comes is left out until something goes', () => {
  const history = new FiguresHistory(bytesOf(typeFields));
  history.note(1, sampleOf({ a: { web: up() }, b: { web: up() } }));
  assert.deepEqual([history.isLeftOut('a'), history.isLeftOut('b'), history.of('b')], [false, true, undefined]);
  assert.equal(history.bytes, bytesOf(typeFields));
  history.note(2, sampleOf({ b: { web: up() } }));
  assert.deepEqual([history.isLeftOut('b'), history.of('b')?.types.get('web')?.at('jobs', 2)], [false, 1]);
});

test('an app that calls its types anew again and again takes no more room than for so many', () => {
  const history = new FiguresHistory(mebibyte);
  for (let step = 1; step <= 40; step += 1) history.note(step, sampleOf({ a: { web: up(), [`type${step}`]: up() } }));
  const names = () => [...(history.of('a')?.types.keys() ?? [])];
  assert.deepEqual([names().length, names()[0], names()[1], names().at(-1)], [32, 'web', 'type10', 'type40']);
  assert.deepEqual([history.bytes, history.isLeftOut('a')], [32 * bytesOf(typeFields), false]);
  const all = Object.fromEntries(Array.from({ length: 33 }, (_, index) => [`other${index}`, up()]));
  history.note(41, sampleOf({ a: all }));
  assert.deepEqual([names().length, history.isLeftOut('a')], [32, true]);
});

test('an app whose requests there is no room for is told as left out', () => {
  const history = new FiguresHistory(mebibyte);
  const sample = sampleOf({ a: { web: up() }, b: {} });
  const unknown = { ...none, perSecond: nan, inFlight: nan };
  const rows = new Map(['a', 'b'].map((id) => [id, unknown]));
  history.note(1, { ...sample, requests: { rows, others: none, leftOut: new Set(['a', 'b']) } });
  assert.deepEqual([history.isLeftOut('a'), history.isLeftOut('b')], [true, true]);
});

test('a clock that went back has nothing told of the time to come, and what it keeps goes an hour after', () => {
  const history = new FiguresHistory(mebibyte);
  history.note(5_000, sampleOf({ a: { web: up(), old: up() } }));
  history.note(1_000, sampleOf({ a: { web: up(3) } }));
  assert.deepEqual(history.span, { first: 1_000, last: 1_000 });
  const jobs = (type: string) => history.of('a')?.types.get(type)?.column('jobs', 999, 1_001);
  assert.deepEqual(
    [jobs('web'), jobs('old')],
    [
      [nan, 3, nan],
      [nan, 0, nan],
    ],
  );
  history.note(1_000 + stepsKept, sampleOf({ a: { web: up() } }));
  assert.deepEqual([...(history.of('a')?.types.keys() ?? [])], ['web']);
});
