import assert from 'node:assert/strict';
import { test } from 'node:test';
import { accessText } from './route-access.ts';

test('who gets in is told in a few words, and nothing where everybody does', () => {
  const users = { ann: {}, ben: {} };
  const allow = ['10.0.0.0/8'];
  assert.equal(accessText(undefined), '');
  assert.equal(accessText({ users, allow: [], needs: 'all' }), 'only with a password (ann, ben)');
  assert.equal(accessText({ users: {}, allow, needs: 'all' }), 'only with an address (10.0.0.0/8)');
  assert.equal(
    accessText({ users, allow, needs: 'any' }),
    'only with a password (ann, ben) or an address (10.0.0.0/8)',
  );
  assert.match(accessText({ users, allow, needs: 'all' }), /ben\) and an address/);
});
