import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { roleText, tokenOf } from './session.ts';

describe('a login by an address', () => {
  it('takes the token of /login alone', () => {
    assert.equal(tokenOf({ pathname: '/login', hash: '#flynn_a%2Bb' }), 'flynn_a+b');
    assert.equal(tokenOf({ pathname: '/login', hash: '#' }), undefined);
    assert.equal(tokenOf({ pathname: '/apps', hash: '#flynn_ab' }), undefined);
    assert.equal(tokenOf({ pathname: '/login', hash: '#%E0' }), undefined);
  });
});

describe('who somebody is', () => {
  const nobody = { kind: 'user' as const, name: 'ann', role: 'none' as const, teams: [], apps: [] };
  it('is told by the role they act in', () => {
    assert.equal(roleText(nobody), 'no role yet');
    assert.equal(roleText({ ...nobody, apps: [{ name: 'shop', role: 'viewer' }] }), 'roles on one app');
    assert.equal(roleText({ ...nobody, kind: 'root', role: 'admin' }), 'root key');
    assert.equal(roleText({ ...nobody, kind: 'root', role: 'admin', token: { id: 't' } }), 'admin');
  });
});
