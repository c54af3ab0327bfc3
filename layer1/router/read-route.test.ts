import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readRoute } from './read-route.ts';

const route = { id: 'r', appId: 'a', type: 'http', domain: 'app.test', service: 'web', createdAt: '' };

test('a setting that this version cannot read is as if nobody had set it', () => {
  const { route: read, problem } = readRoute({ ...route, http: { sticky: true, protocol: 'h3' } });
  assert.deepEqual([read?.http.sticky, read?.http.protocol], [true, 'http1']);
  assert.match(problem ?? '', /protocol/);
});

test('who may come in by another version’s rules is not everybody', () => {
  for (const access of [{ users: { ann: { hash: '$argon2id$x' } } }, { needs: 'two' }, 'friends', null]) {
    const { route: read, problem } = readRoute({ ...route, http: { sticky: true, access } });
    assert.deepEqual(read?.http.access, { users: {}, allow: [], needs: 'all' }, JSON.stringify(access));
    assert.equal(read?.http.sticky, true);
    assert.match(problem ?? '', /access/);
  }
});
