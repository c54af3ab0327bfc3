import assert from 'node:assert/strict';
import { test } from 'node:test';
import { outlookOf, withConditions } from './condition.ts';
import type { Condition } from './condition.ts';

const is = (type: string, status: Condition['status']): Condition => ({
  type,
  status,
  reason: 'Said',
  message: '',
  since: 'then',
});

test('conditions are kept by type; since moves with the status alone', () => {
  const before = [is('A', 'True'), is('B', 'False')];
  const after = withConditions(
    before,
    [
      { type: 'B', status: 'True', reason: 'Mended' },
      { type: 'A', status: 'True', reason: 'Still', message: 'as before' },
      { type: 'C', status: 'Unknown', reason: 'New' },
    ],
    'now',
  );
  assert.deepEqual(after, [
    { type: 'A', status: 'True', reason: 'Still', message: 'as before', since: 'then' },
    { type: 'B', status: 'True', reason: 'Mended', message: '', since: 'now' },
    { type: 'C', status: 'Unknown', reason: 'New', message: '', since: 'now' },
  ]);
});

test('an object in one word', () => {
  const common = { generation: 2, conditions: [] };
  const all = [is('A', 'True'), is('B', 'True')];
  assert.equal(outlookOf(common), undefined);
  assert.equal(outlookOf({ ...common, observedGeneration: 2, conditions: all }), 'ready');
  assert.equal(outlookOf({ ...common, observedGeneration: 1, conditions: all }), 'pending');
  assert.equal(outlookOf({ ...common, conditions: [...all, is('C', 'Unknown')] }), 'unknown');
  assert.deepEqual(outlookOf({ ...common, observedGeneration: 2, conditions: [is('A', 'False')] }), is('A', 'False'));
  assert.equal(outlookOf({ ...common, conditions: [is('A', 'False')], deletingSince: 'then' }), 'deleting');
});
