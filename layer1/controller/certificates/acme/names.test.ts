import assert from 'node:assert/strict';
import { test } from 'node:test';
import { automaticNames, checkNames, isPublicName } from './names.ts';

const names = (input: Partial<Parameters<typeof automaticNames>[0]>) => [
  ...automaticNames({
    routes: [],
    covered: [],
    challenge: 'http-01',
    clusterDomains: ['apps.net', 'old.net'],
    ...input,
  }),
];

test('only names that an authority can know of are public', () => {
  for (const name of ['example.com', 'a.b.co.uk', '*.example.com']) assert.ok(isPublicName(name), name);
  for (const name of [
    'x.flynn.localhost',
    'localhost',
    'box',
    'nas.local',
    'a.test',
    'x.home.arpa',
    '*.test',
    '10.0.0.1',
    'a.alt',
  ]) {
    assert.ok(!isPublicName(name), name);
  }
});

test('each public name gets one, once, unless a certificate that people brought or asked for covers it', () => {
  const routes = ['a.com', 'a.com', 'x.b.com', 'c.localhost', 'd.com'];
  assert.deepEqual(names({ routes, covered: ['*.b.com', 'd.com'] }), ['a.com']);
});

test('wildcard routes get one over dns-01 alone', () => {
  assert.deepEqual(names({ routes: ['*.a.com'] }), []);
  assert.deepEqual(names({ routes: ['*.a.com'], challenge: 'dns-01' }), ['*.a.com']);
});

test('over dns-01 the cluster’s own names have one wildcard together', () => {
  const routes = ['shop.apps.net', 'blog.apps.net', 'apps.net', 'other.com'];
  assert.deepEqual(names({ routes, challenge: 'dns-01' }), ['*.apps.net', 'apps.net', 'other.com']);
  assert.deepEqual(names({ routes }), routes);
  // Those that are left of where it was before.
  assert.deepEqual(names({ routes: ['a.old.net', 'b.old.net'], challenge: 'dns-01' }), ['*.old.net']);
});

test('what an authority would refuse it is not asked', () => {
  checkNames(['*.a.com', 'a.com'], 'dns-01');
  checkNames(['a.com'], 'http-01');
  assert.throws(() => checkNames(['a.com', '*.a.com'], 'http-01'), /\*\.a\.com for dns-01 alone/);
  assert.throws(() => checkNames(['box'], 'dns-01'), /box is no name/);
});
