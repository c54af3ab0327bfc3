import assert from 'node:assert/strict';
import { test } from 'node:test';
import { cookieOf, forgottenCookie, tokenIn } from './cookie.ts';

const token = `flynn_abcdefghijkl_${'s'.repeat(43)}`;

test('over TLS the cookie is for this host alone, and never for scripts or other sites', () => {
  const cookie = cookieOf(token, { isSecure: true, maxAgeSeconds: 60 });
  assert.equal(cookie, `__Host-flynn-session=${token}; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure`);
  assert.equal(tokenIn({ cookie: `a=b; __Host-flynn-session=${token}; c=d` }, { isSecure: true }), token);
  assert.match(forgottenCookie({ isSecure: true }), /^__Host-flynn-session=; Path=\/; Max-Age=0;.* Secure$/);
});

test('in clear it has another name, so that none of the two is taken for the other', () => {
  const cookie = cookieOf(token, { isSecure: false, maxAgeSeconds: 60 });
  assert.equal(cookie, `flynn-session=${token}; Path=/; Max-Age=60; HttpOnly; SameSite=Strict`);
  assert.equal(tokenIn({ cookie: `flynn-session=${token}` }, { isSecure: false }), token);
  assert.equal(tokenIn({ cookie: `flynn-session=${token}` }, { isSecure: true }), undefined);
});

test('what is no token of a person, or is there twice, is nobody', () => {
  for (const cookie of [
    '',
    'flynn-session=',
    'flynn-session=root-key',
    `flynn-session="${token}"`,
    `flynn-session=${token}x`,
    `flynn-session=flynn_service_router_${'s'.repeat(43)}`,
    `xflynn-session=${token}`,
    `flynn-session=${token}; flynn-session=${token}`,
    `flynn-session=${token}; flynn-session=other`,
  ]) {
    assert.equal(tokenIn({ cookie }, { isSecure: false }), undefined, cookie);
  }
  assert.equal(tokenIn({}, { isSecure: false }), undefined);
});
