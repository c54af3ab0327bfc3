import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import type { Loss } from '../model.ts';
import { endedOperation } from './ended-fixture.ts';
import { checkLosses, currentBuild, lossText, whyNotAgain } from './losses.ts';
import { buildOperationOf } from '../builds/compile.ts';

const at = '2026-01-01T00:00:00.000Z';
const runnerLost: Loss = { at, runnerId: 'r1', hasRun: false };
const beneath = (hostId?: string): Loss => ({ at, ...(hostId === undefined ? {} : { hostId }), hasRun: true });

test('what was lost is begun again twice, and a build that hosts were lost beneath once', () => {
  assert.equal(whyNotAgain([runnerLost]), undefined);
  assert.equal(whyNotAgain([runnerLost, runnerLost]), undefined);
  assert.match(whyNotAgain([runnerLost, runnerLost, runnerLost]) ?? '', /begun again 2 times: push again/);
  assert.equal(whyNotAgain([beneath('a')]), undefined);
  assert.equal(whyNotAgain([beneath('a'), runnerLost]), undefined);
  assert.match(
    whyNotAgain([beneath('a'), beneath('b')]) ?? '',
    /^the hosts a and b were lost while it was built there/,
  );
  assert.match(whyNotAgain([beneath('a'), beneath('a')]) ?? '', /^its host a was lost twice while/);
  assert.match(whyNotAgain([beneath(), beneath()]) ?? '', /^its host was lost twice while/);
});

test('what was lost is said: the host that built it, or was to, or the runner', () => {
  assert.equal(lossText(beneath('a')), 'the host a that built it was lost');
  assert.equal(lossText({ ...beneath('a'), hasRun: false }), 'the host a that was to build it was lost');
  assert.equal(lossText(runnerLost), 'the runner r1 that saw to it was lost');
  const drained = { at, hostId: 'a', hasRun: false, isDrained: true };
  assert.equal(lossText(drained), 'the host a was drained, and its deadline ended the build');
  assert.equal(lossText({ at, hasRun: false }), 'the host that was to build it was lost before it began');
});

test('each time a build is begun it is another workload of the same operation, and who was at one before has none of it', () => {
  const operation = endedOperation('x.2', 1);
  assert.equal(currentBuild(operation), 'a-build-x.2');
  const lost = { ...operation, status: { ...operation.status, losses: [runnerLost] } };
  assert.equal(currentBuild(lost), 'a-build.2-x.2');
  for (const one of [operation, lost]) assert.equal(buildOperationOf(currentBuild(one)), 'x.2');
  for (const other of ['a-run-1', 'a-build', 'a-builder-1', 'a-release-build-1'])
    assert.equal(buildOperationOf(other), undefined);
  checkLosses(lost, 1);
  assert.throws(
    () => checkLosses(lost, 0),
    (error) => hasCode(error, 'conflict'),
  );
});
