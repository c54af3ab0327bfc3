import assert from 'node:assert/strict';
import { test } from 'node:test';
import { datastoreName, maxNames } from './names.ts';

test('a datastore is called after its app and its kind, with a number where there is one, and never too long', () => {
  assert.equal(datastoreName('postgres', 'shop', 1), 'shop-postgres');
  assert.equal(datastoreName('postgres', 'shop', 2), 'shop-postgres-2');
  assert.equal(datastoreName('postgres', undefined, 1), 'postgres');
  const long = datastoreName('postgres', `${'a'.repeat(17)}-${'b'.repeat(12)}`, maxNames);
  assert.equal(long, `${'a'.repeat(17)}-postgres-50`);
  assert.ok(datastoreName('postgres', 'c'.repeat(30), maxNames).length <= 30);
});
