import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { levelOn, mayChange, mayReadValues } from './abilities.ts';

const shop = { name: 'shop', isSystem: false };
const router = { name: 'router', isSystem: true };

describe('what somebody may do', () => {
  it('is the higher of their role on the cluster and on the app', () => {
    assert.equal(levelOn(shop, { role: 'none', apps: [{ name: 'shop', role: 'developer' }] }), 'developer');
    assert.equal(levelOn(shop, { role: 'developer', apps: [{ name: 'shop', role: 'viewer' }] }), 'developer');
    assert.equal(levelOn(shop, { role: 'none', apps: [{ name: 'blog', role: 'admin' }] }), 'none');
  });

  it('with the platform itself is to look, below an admin', () => {
    assert.equal(mayChange(router, { role: 'developer', apps: [], kind: 'user', name: 'ann', teams: [] }), false);
    assert.equal(mayChange(router, { role: 'admin', apps: [], kind: 'user', name: 'ann', teams: [] }), true);
  });

  it('does not show values to who only looks', () => {
    assert.equal(mayReadValues(shop, { role: 'viewer', apps: [], kind: 'user', name: 'vic', teams: [] }), false);
    assert.equal(mayReadValues(shop, { role: 'developer', apps: [], kind: 'user', name: 'ann', teams: [] }), true);
  });
});
