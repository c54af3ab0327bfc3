import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { type Ways, judgeWays } from './checks.ts';

const hosts = [
  { id: 'h2', versions: ['1.0.0', '1.1.0', '1.2.0'] },
  // Away when the cluster became 1.1.0.
  { id: 'h3', versions: ['1.0.0', '1.2.0'] },
  { id: 'h4', versions: undefined },
];
const judge = (ways: Partial<Ways>) => judgeWays(hosts, { leavesAway: false, ...ways });
const refusal = (ways: Partial<Ways>) => judge(ways).refusal;

test('no host is to become what it does not have and is not sent', () => {
  assert.equal(refusal({ to: '1.0.0', back: '1.2.0' }), undefined);
  assert.equal(refusal({}), undefined);
  const found = refusal({ to: '1.1.0', back: '1.2.0' });
  assert.ok(hasCode(found, 'not_found'));
  assert.match(found.message, /^h3 does not have version 1\.1\.0: .*--bundle FILE\. Nothing was changed$/);
});

test('a cluster is not moved where a host could not go back, unless it is to stay', () => {
  const found = refusal({ back: '1.1.0' });
  assert.ok(hasCode(found, 'conflict'));
  assert.match(
    found.message,
    /^h3 does not have version 1\.1\.0, to which .*update --to 1\.1\.0 --bundle FILE.*--stay/,
  );
  assert.match(refusal({ back: '0.9.0' })?.message ?? '', /^h2, h3 do not have version 0\.9\.0/);
});

test('who lacks what the others go back to is left as it is, and keeps none of them', () => {
  assert.deepEqual(judge({ to: '1.1.0', leavesAway: true }), { left: ['h3'] });
  assert.deepEqual(judge({ to: '1.0.0', leavesAway: true }), { left: [] });
  // Who does not move needs no way back.
  assert.deepEqual(judge({ to: '1.1.0', back: '1.1.0', leavesAway: true }), { left: ['h3'] });
  assert.ok(hasCode(judge({ back: '1.1.0', leavesAway: true }).refusal, 'conflict'));
});
