import assert from 'node:assert/strict';
import { test } from 'node:test';
import { datastoreName, maxNames } from './names.ts';

test('a datastore is called after its app and its kind, with a number where there is one, and never too long', () => {
  assert.equal(datastoreName('postgres', { owner: 'shop' }, 1), 'shop-postgres');
  assert.equal(datastoreName('postgres', { owner: 'shop' }, 2), 'shop-postgres-2');
  assert.equal(datastoreName('postgres', {}, 1), 'postgres');
  const long = datastoreName('postgres', { owner: `${'a'.repeat(17)}-${'b'.repeat(12)}` }, maxNames);
  assert.equal(long, `${'a'.repeat(17)}-postgres-50`);
  assert.ok(datastoreName('postgres', { owner: 'c'.repeat(30) }, maxNames).length <= 30);
  assert.equal(datastoreName('postgres', { owner: 'other', source: 'shop-postgres' }, 2), 'shop-postgres-2');
  assert.ok(datastoreName('postgres', { source: 'd'.repeat(30) }, maxNames).length <= 30);
});
