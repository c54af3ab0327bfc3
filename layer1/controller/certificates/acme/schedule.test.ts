import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { retryAfterOf } from './authority.ts';
import { dueMs, namesDue, nextTryMs, renewalMs } from './schedule.ts';

const dayMs = 86_400_000;
const life = { notBefore: '2026-01-01T00:00:00.000Z', notAfter: '2026-04-01T00:00:00.000Z' };
const start = Date.parse(life.notBefore);
const whole = Date.parse(life.notAfter) - start;

test('renewal is after two thirds of the life, spread over a twentieth of it, always the same for one certificate', () => {
  const shares = Array.from({ length: 500 }, (_, index) => (renewalMs(`c${index}`, life) - start) / whole);
  for (const share of shares) assert.ok(share >= 2 / 3 && share <= 2 / 3 + 0.05, String(share));
  assert.ok(Math.max(...shares) - Math.min(...shares) > 0.045);
  assert.equal(renewalMs('c1', life), renewalMs('c1', life));
});

test('due is one that was never had, or has other names; one that failed when it said so; else its renewal', () => {
  const spec = { source: 'acme' as const, domains: ['a.net', 'b.net'], isAutomatic: false };
  const issued = { certificate: '', privateKey: '', issuer: '', notes: [], ...life };
  const due = (status: object, nowMs = start) =>
    dueMs({ id: 'c1', spec, status: { issuedFor: [], challenges: [], records: [], ...status } }, nowMs);
  assert.equal(due({}), 0);
  assert.equal(due({ issued, issuedFor: ['a.net'] }), 0);
  assert.equal(due({ issued, issuedFor: ['b.net', 'a.net'] }), renewalMs('c1', life));
  const failure = { count: 1, message: '', at: life.notBefore, nextTryAt: '2026-01-02T00:00:00.000Z' };
  assert.equal(due({ issued, issuedFor: ['a.net', 'b.net'], failure }), start + dayMs);
  assert.equal(due({ failure }, start - 1_000), start + dayMs, 'clocks are never quite the same');
  assert.equal(due({ failure }, start - 3_600_000), 0, 'noted by a clock that was ahead');
});

test('all names are asked for; after that came to nothing those first whose certificate is to be renewed', () => {
  const domains = ['a.net', 'b.net', 'c.net'];
  const spec = { source: 'acme' as const, domains, isAutomatic: false };
  const issued = { certificate: '', privateKey: '', issuer: '', notes: [], ...life };
  const failure = { count: 1, message: '', at: '', nextTryAt: '' };
  const late = renewalMs('c1', life);
  const names = (status: object, nowMs = late) =>
    namesDue({ id: 'c1', spec, status: { issuedFor: [], challenges: [], records: [], ...status } }, nowMs);
  assert.deepEqual(names({ issued, issuedFor: ['b.net', 'a.net', 'gone.net'], failure }), ['a.net', 'b.net']);
  assert.deepEqual(names({ issued, issuedFor: ['b.net'], failure }, late - 1), domains);
  assert.deepEqual(names({ issued, issuedFor: ['b.net'] }), domains, 'asked for anew');
  assert.deepEqual(names({ issued, issuedFor: domains, failure }), domains);
  assert.deepEqual(names({ issued, issuedFor: ['gone.net'], failure }), domains);
  assert.deepEqual(names({ failure }), domains);
});

test('tries come further and further apart, up to a day, and never before the authority wants them', () => {
  const pause = (count: number, retryAfterMs?: number, random = 1) =>
    nextTryMs({ count, nowMs: 0, retryAfterMs, random: () => random });
  assert.deepEqual(
    [0, 1, 2, 3].map((count) => pause(count) / 60_000),
    [5, 10, 20, 40],
  );
  assert.equal(pause(0, undefined, 0), 150_000);
  fc.assert(
    fc.property(fc.nat(1_000), fc.double({ min: 0, max: 1, noNaN: true }), fc.nat(1e9), (count, random, after) => {
      const ms = pause(count, after, random);
      assert.ok(ms >= after && ms >= 150_000 && ms <= Math.max(after, dayMs));
    }),
  );
});

test('Retry-After is seconds or a date; what is neither, or over, says nothing', () => {
  assert.equal(retryAfterOf('120', 0), 120_000);
  assert.equal(retryAfterOf('Thu, 01 Jan 1970 00:01:00 GMT', 0), 60_000);
  assert.equal(retryAfterOf('9'.repeat(40), 0), 30 * dayMs, 'it is tried again some day');
  for (const text of ['soon', '', '0', 'Thu, 01 Jan 1970 00:00:00 GMT', undefined]) {
    assert.equal(retryAfterOf(text, 1_000), undefined, String(text));
  }
});
