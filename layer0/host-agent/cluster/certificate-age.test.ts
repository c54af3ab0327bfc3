import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { certificateFault } from './certificate-age.ts';

test('a certificate is told about from thirty days before its end on, and after it', async () => {
  const dayMs = 24 * 3_600_000;
  const now = Date.parse('2026-01-01T00:00:00Z');
  const authority = await createAuthority('flynn test', { now });
  const { certificate } = await issueCertificate(authority, { name: 'h1', now, days: 100 });
  assert.equal(certificateFault(certificate, now), undefined);
  assert.equal(certificateFault(certificate, now + 70 * dayMs), undefined);
  assert.match(certificateFault(certificate, now + 80 * dayMs) ?? '', /ends in 20 days.*flynn-host certificates renew/);
  assert.match(certificateFault(certificate, now + 101 * dayMs) ?? '', /ended on Apr 11/);
});
