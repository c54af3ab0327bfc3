import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Job } from '@flynn/controller/model';
import { changeOf, isReached } from './job-watch.ts';

let made = 0;
function job(type: string, state: Job['state'], change: Partial<Job> = {}): Job {
  made += 1;
  return {
    id: `job${made}`,
    workloadId: type,
    appId: 'app',
    releaseId: 'release',
    type,
    state,
    restarts: 0,
    createdAt: '2026-01-01T00:00:00Z',
    ...change,
  };
}

test('a scale is reached when exactly as many run as wanted, and nothing is under way', () => {
  const wanted = { web: { count: 2, isOmni: false } };
  const cases: [Job['state'][], boolean][] = [
    [['running', 'running'], true],
    [['running'], false],
    [['running', 'starting'], false],
    [['running', 'running', 'running'], false],
    [['running', 'running', 'stopping'], false],
    [['running', 'running', 'pending'], false],
    [['running', 'crashed'], false],
    [['running', 'running', 'crashed'], true],
  ];
  for (const [states, expected] of cases) {
    assert.equal(
      isReached(
        states.map((state) => job('web', state)),
        wanted,
      ),
      expected,
      states.join(),
    );
  }
});

test('other types are left out of it', () => {
  const jobs = [job('web', 'running'), job('worker', 'starting')];
  assert.equal(isReached(jobs, { web: { count: 1, isOmni: false } }), true);
});

test('a scale to zero is reached when none is left', () => {
  const none = { web: { count: 0, isOmni: false }, agent: { count: 0, isOmni: true } };
  assert.equal(isReached([], none), true);
  assert.equal(isReached([job('agent', 'running')], none), false);
});

test('of a type that runs on every host all that are there have to run', () => {
  const wanted = { agent: { count: 1, isOmni: true } };
  assert.equal(isReached([], wanted), false);
  assert.equal(isReached([job('agent', 'running'), job('agent', 'running')], wanted), true);
  assert.equal(isReached([job('agent', 'running'), job('agent', 'starting')], wanted), false);
});

test('a job coming up, going down and breaking is told once', () => {
  const what = (before: Job['state'] | undefined, after: Job['state'] | undefined) =>
    changeOf(before && job('web', before), after && job('web', after))?.what;
  assert.equal(what(undefined, 'starting'), undefined);
  assert.equal(what('starting', 'running'), 'up');
  assert.equal(what(undefined, 'running'), 'up');
  assert.equal(what('running', 'running'), undefined);
  assert.equal(what('running', 'stopping'), undefined);
  assert.equal(what('stopping', 'done'), 'down');
  assert.equal(what('stopping', 'failed'), 'down');
  assert.equal(what('done', undefined), undefined);
  assert.equal(what('running', undefined), 'down');
  assert.equal(what('running', 'crashed'), 'crashed');
  assert.equal(what('crashed', 'crashed'), undefined);
  assert.equal(what('starting', 'failed'), 'failed');
  assert.equal(what('running', 'lost'), 'lost');
  assert.equal(what(undefined, undefined), undefined);
});
