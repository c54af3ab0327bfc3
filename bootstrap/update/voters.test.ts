import assert from 'node:assert/strict';
import { test } from 'node:test';
import { missingVoters } from './voters.ts';

test('a member that is away is missed where the others are no majority without one that starts anew', () => {
  const missing = (voters: readonly string[], ...there: readonly string[]) => missingVoters(voters, new Set(there));
  assert.deepEqual(missing(['h1', 'h2', 'h3'], 'h1', 'h2', 'h4'), ['h3']);
  assert.deepEqual(missing(['h1', 'h2', 'h3'], 'h1', 'h2', 'h3'), []);
  // Whoever is away has no member.
  assert.deepEqual(missing(['h1', 'h2', 'h3'], 'h1', 'h2', 'h3', 'h5'), []);
  assert.deepEqual(missing(['h1', 'h2', 'h3', 'h4', 'h5'], 'h1', 'h2', 'h3', 'h4'), []);
  assert.deepEqual(missing(['h1', 'h2', 'h3', 'h4', 'h5'], 'h1', 'h2', 'h3'), ['h4', 'h5']);
  // A single one is away for a moment whatever is done.
  assert.deepEqual(missing(['h1'], 'h1', 'h2'), []);
});
