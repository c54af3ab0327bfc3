import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { z } from 'zod';
import { guarded, shownHttp, unguarded, withoutHashes } from './guard.ts';
import { changedHttp, routeIssues } from './rules.ts';
import { httpChangeSchema, httpSettingsSchema, tcpSettingsSchema } from './settings.ts';

const plain = httpSettingsSchema.parse({});
const hash = `$scrypt$ln=15,r=8,p=1$${'a'.repeat(22)}$${'b'.repeat(43)}`;
const ann = { users: { ann: { hash } } };
const office = { allow: ['10.0.0.0/8'] };

/** As a router or a controller of a version before reads what is written now. */
const before = httpSettingsSchema.omit({ access: true }).extend({
  maintenance: z.object({ allow: z.array(z.string()).default([]) }).optional(),
});
const letInBefore = (http: object) => before.parse(JSON.parse(JSON.stringify(http))).maintenance?.allow;

describe('a route that does not let in everybody', () => {
  test('is in maintenance for versions before, but for addresses that need no password', () => {
    assert.equal(letInBefore(changedHttp(plain, {})), undefined);
    assert.deepEqual(letInBefore(changedHttp(plain, { access: ann })), []);
    assert.deepEqual(letInBefore(changedHttp(plain, { access: { ...ann, ...office } })), []);
    assert.deepEqual(letInBefore(changedHttp(plain, { access: { ...ann, ...office, needs: 'any' } })), office.allow);
    assert.deepEqual(letInBefore(changedHttp(plain, { access: office })), office.allow);
  });

  test('is as people set it where it is shown, without what users know', () => {
    const http = changedHttp(plain, { access: { ...ann, ...office } });
    const access = { users: { ann: {} }, allow: office.allow, needs: 'all' };
    assert.deepEqual(shownHttp(http), { ...plain, access });
    assert.deepEqual(withoutHashes([{ domain: 'a', http: { access: http.access } }]), [
      { domain: 'a', http: { access } },
    ]);
    assert.equal(shownHttp(plain), plain);
  });

  test('goes into maintenance and comes back, and opens when that is said', () => {
    const closed = changedHttp(plain, { access: ann });
    const working = changedHttp(closed, { maintenance: { allow: ['192.0.2.1'] } });
    assert.deepEqual(working.maintenance, { allow: ['192.0.2.1'] });
    assert.deepEqual(changedHttp(working, { maintenance: null }), closed);
    assert.deepEqual(changedHttp(closed, { access: null }), plain);
    assert.deepEqual(changedHttp(closed, { maintenance: null }), closed);
    assert.deepEqual(guarded(unguarded(closed)), closed);
  });

  test('keeps its other users, and who is named without a hash keeps theirs', () => {
    const two = changedHttp(changedHttp(plain, { access: ann }), { access: { users: { ben: { hash } } } });
    assert.deepEqual(two.access?.users, { ann: { hash }, ben: { hash } });
    const one = changedHttp(two, { access: { users: { ann: {}, ben: null } } });
    assert.deepEqual(one.access?.users, { ann: { hash } });
  });

  test('lets in somebody, each with a password, at addresses that are some', () => {
    const issues = (access: object) => {
      const http = changedHttp(plain, httpChangeSchema.parse({ access }));
      const tcp = tcpSettingsSchema.parse({});
      return routeIssues({ type: 'http', domain: 'a.test', path: '/', http, tcp }).map(({ path }) => path);
    };
    assert.deepEqual(issues(ann), []);
    assert.deepEqual(issues({}), ['http.access']);
    assert.deepEqual(issues({ users: { ann: {} } }), ['http.access.users.ann']);
    assert.deepEqual(issues({ allow: ['10.0.0.1', 'home'] }), ['http.access.allow.1']);
    const crowd = Object.fromEntries(Array.from({ length: 51 }, (_, n) => [`user${n}`, { hash }]));
    assert.deepEqual(issues({ users: crowd }), ['http.access.users']);
    for (const users of [{ 'a:b': { hash } }, { '': { hash } }, { ann: { hash: 'swordfish' } }]) {
      assert.equal(httpChangeSchema.safeParse({ access: { users } }).success, false);
    }
  });
});
