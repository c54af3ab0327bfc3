import assert from 'node:assert/strict';
import { test } from 'node:test';
import { certificateOf } from './resource-fixture.ts';
import { isShownFor } from './shown.ts';
import { servedOf, viewCertificate } from './view.ts';

const nowMs = Date.parse('2026-06-01T00:00:00Z');
const bundle = {
  certificate: 'c',
  privateKey: 'k',
  issuer: 'i',
  notBefore: '2026-05-01T00:00:00Z',
  notAfter: '2026-08-01T00:00:00Z',
  notes: [],
};

const failure = { count: 3, message: 'no such name', at: '2026-05-31T00:00:00Z', nextTryAt: '2026-06-02T00:00:00Z' };

test('asked for with more names, one is served for those it is for until there is another', () => {
  const domains = ['example.com', 'www.example.com'];
  const more = certificateOf({ domains }, { issued: bundle, issuedFor: ['example.com'] });
  assert.deepEqual(servedOf(more).domains, ['example.com']);
  assert.equal(isShownFor('example.com', [more], nowMs), true);
  assert.equal(isShownFor('www.example.com', [more], nowMs), false);
  const { state, why, servedFor } = viewCertificate(more, nowMs);
  assert.deepEqual(servedFor, ['example.com']);
  assert.deepEqual(
    [state, why],
    ['waiting', 'asked for at the authority; until there is another this one is for example.com alone'],
  );
  const failing = viewCertificate({ ...more, status: { ...more.status, failure } }, nowMs);
  assert.equal(failing.state, 'failing');
  assert.match(failing.why, /^no such name; until there is another this one is for example\.com alone$/);
  const all = certificateOf({ domains }, { issued: bundle, issuedFor: domains.toReversed() });
  assert.deepEqual([servedOf(all).domains, viewCertificate(all, nowMs).state], [domains, 'ready']);
});

test('asked for with fewer names, one is served for those that are left, and a wildcard counts for what it stands for', () => {
  const fewer = certificateOf(
    { domains: ['example.com'] },
    { issued: bundle, issuedFor: ['example.com', 'www.example.com'] },
  );
  assert.deepEqual(servedOf(fewer).domains, ['example.com']);
  const issuedFor = ['example.com', '*.example.com'];
  const single = certificateOf(
    { domains: ['example.com', 'www.example.com', 'a.b.example.com'] },
    { issued: bundle, issuedFor },
  );
  assert.deepEqual(servedOf(single).domains, ['example.com', 'www.example.com']);
});

test('what came of an order of before is not said of one that people brought', () => {
  const challenges = [{ type: 'http-01' as const, token: 't', answer: 'a' }];
  const own = certificateOf({ source: 'own', own: bundle }, { failure, challenges });
  const { state, why, nextTryAt } = viewCertificate(own, nowMs);
  assert.deepEqual([state, why, nextTryAt], ['ready', '', undefined]);
  assert.deepEqual([servedOf(own).domains, servedOf(own).challenges], [['example.com'], []]);
});

test('one that was never issued is shown for no name', () => {
  const waiting = certificateOf({}, {});
  assert.deepEqual(
    [viewCertificate(waiting, nowMs).state, viewCertificate(waiting, nowMs).why],
    ['waiting', 'asked for at the authority'],
  );
  assert.deepEqual([servedOf(waiting).certificate, viewCertificate(waiting, nowMs).servedFor], [undefined, []]);
  assert.equal(isShownFor('example.com', [waiting], nowMs), false);
});
