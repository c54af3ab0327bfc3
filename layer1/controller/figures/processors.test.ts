import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Processors } from './processors.ts';

/** `silent`: the host leaves it out. */
type Look = Readonly<Record<string, number | 'silent'>>;

/** At looks ten seconds apart: the processor time that each job has taken; jobs are on the host that their name begins with. */
function looks(all: readonly Look[]): Record<string, number>[] {
  const processors = new Processors();
  return all.map((look, index) => {
    const entries = Object.entries(look);
    const told = new Map(
      entries.flatMap(([id, seconds]) => (seconds === 'silent' ? [] : [[id, { atMs: index * 10_000, seconds }]])),
    );
    const hostOf = (id: string) => (id === 'gone' ? undefined : id.split('-')[0]);
    return Object.fromEntries(processors.note(told, hostOf, new Set(Object.keys(look))));
  });
}

const nan = Number.NaN;

test('the first look says nothing, each after it what was taken since the one before', () => {
  assert.deepEqual(looks([{ 'h1-a': 100 }, { 'h1-a': 105 }, { 'h1-a': 105 }]), [
    { 'h1-a': nan },
    { 'h1-a': 0.5 },
    { 'h1-a': 0 },
  ]);
});

test('a job that came on a host that was asked before has taken all of it since, and so has one that was started anew', () => {
  const [, second, third] = looks([{ 'h1-a': 1 }, { 'h1-a': 1, 'h1-b': 4 }, { 'h1-a': 0.5, 'h1-b': 4 }]);
  assert.deepEqual(second, { 'h1-a': 0, 'h1-b': 0.4 });
  assert.deepEqual(third, { 'h1-a': 0.05, 'h1-b': 0 });
});

test('after a look at which its host did not answer it is not known what a job took', () => {
  const [, , third, fourth] = looks([{ 'h1-a': 1 }, { 'h1-a': 'silent' }, { 'h1-a': 90 }, { 'h1-a': 91 }]);
  assert.deepEqual([third, fourth], [{ 'h1-a': nan }, { 'h1-a': 0.1 }]);
});

test('of a job that its host left out, though it answered, it is not known what it took, however long it runs', () => {
  const hours = 36_000;
  const [, , third, fourth] = looks([
    { 'h1-a': 1, 'h1-b': hours },
    { 'h1-a': 1, 'h1-b': 'silent' },
    { 'h1-a': 1, 'h1-b': hours + 9 },
    { 'h1-a': 1, 'h1-b': hours + 10 },
  ]);
  assert.deepEqual(
    [third, fourth],
    [
      { 'h1-a': 0, 'h1-b': nan },
      { 'h1-a': 0, 'h1-b': 0.1 },
    ],
  );
});

test('of jobs that the cell does not know nothing is told', () => {
  assert.deepEqual(looks([{ gone: 1 }, { gone: 2 }])[1], {});
});
