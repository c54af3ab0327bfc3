import assert from 'node:assert/strict';
import { test } from 'node:test';
import { certificateOf } from '../resource-fixture.ts';
import type { CertificateResource } from '../resources.ts';
import { outdated } from './outdated.ts';

const nowMs = Date.parse('2026-06-01T00:00:00Z');
const dayMs = 86_400_000;

type Made = { isAutomatic?: boolean; source?: 'own' | 'acme'; days?: number | undefined; issuedFor?: string[] };

/** `days`: how long it is good still; undefined for one that was never issued. */
function made(domains: string[], { isAutomatic = true, source = 'acme', issuedFor = domains, ...more }: Made = {}) {
  const days = 'days' in more ? more.days : 30;
  const bundle = {
    certificate: '',
    privateKey: '',
    issuer: '',
    notBefore: '',
    notAfter: new Date(nowMs + (days ?? 0) * dayMs).toISOString(),
    notes: [],
  };
  const isThere = days !== undefined;
  return certificateOf(
    { source, domains, isAutomatic, ...(source === 'own' ? { own: bundle } : {}) },
    { issuedFor: isThere ? issuedFor : [], ...(isThere && source === 'acme' ? { issued: bundle } : {}) },
  );
}

const ids = (
  known: CertificateResource[],
  options: { wanted?: string[]; routes?: string[]; isMissingRoutes?: boolean } = {},
) => {
  const { wanted = [], routes = [], isMissingRoutes = false } = options;
  const found = outdated(known, { wanted: new Set(wanted), routes: new Set(routes), isMissingRoutes, nowMs });
  return found.map(({ id }) => id);
};

const shop = made(['shop.apps.net']);
const routes = ['shop.apps.net'];

test('one goes with its route, unless there are routes nobody can read', () => {
  assert.deepEqual(ids([shop]), ['shop.apps.net']);
  assert.deepEqual(ids([made(['*.apps.net'])], { routes: ['other.net'] }), ['*.apps.net']);
  assert.deepEqual(ids([shop], { isMissingRoutes: true }), []);
  assert.deepEqual(ids([shop], { wanted: routes, routes }), []);
  assert.deepEqual(
    ids([made(routes, { isAutomatic: false }), made(['a.net'], { source: 'own', isAutomatic: false })]),
    [],
  );
});

test('another in its place has to be shown there before it goes', () => {
  const wildcard = (more: Made) => made(['*.apps.net'], more);
  const wanted = ['*.apps.net'];
  assert.deepEqual(ids([shop, wildcard({ days: undefined })], { wanted, routes }), [], 'waiting');
  assert.deepEqual(ids([shop, wildcard({ days: -1 })], { wanted, routes }), [], 'over');
  assert.deepEqual(ids([shop, wildcard({})], { wanted, routes }), ['shop.apps.net']);
  const asked = (more: Made) => made(['apps.net', 'shop.apps.net'], { isAutomatic: false, ...more });
  assert.deepEqual(ids([shop, asked({ days: undefined })], { routes }), []);
  assert.deepEqual(
    ids([shop, asked({ issuedFor: ['apps.net'] })], { routes }),
    [],
    'issued, but not for this name yet',
  );
  assert.deepEqual(ids([shop, asked({})], { routes }), ['shop.apps.net']);
  assert.deepEqual(ids([shop, asked({ source: 'own' })], { routes }), ['shop.apps.net']);
});

test('a wildcard stays until each of the names it stands for has another', () => {
  const both = ['shop.apps.net', 'blog.apps.net'];
  const wildcard = made(['*.apps.net']);
  const blog = (days?: number) => made(['blog.apps.net'], { days });
  const wanted = both;
  assert.deepEqual(ids([wildcard, shop, blog()], { wanted, routes: both }), []);
  assert.deepEqual(ids([wildcard, shop, blog(30)], { wanted, routes: both }), ['*.apps.net']);
});

test('of two that are both wanted no more, neither counts for the other', () => {
  const waiting = made(['apps.net', 'shop.apps.net'], { isAutomatic: false, days: undefined });
  assert.deepEqual(ids([shop, made(['*.apps.net']), waiting], { routes }), []);
});

test('what was never issued goes at once: nobody asks an authority for it beside what is wanted', () => {
  assert.deepEqual(ids([made(routes, { days: undefined })], { wanted: ['*.apps.net'], routes }), ['shop.apps.net']);
});
