import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { once } from 'node:events';
import { test } from 'node:test';
import { connect, createServer } from 'node:tls';
import { hasCode } from './errors.ts';
import { certificatesIn, fingerprintOf } from './certificate.ts';
import { roleOf } from './identity.ts';
import { createAuthority, deriveAuthority, endorse, isDue, issueCertificate } from './tls.ts';

test('client and server know each other by their authority; a stranger is refused on either side', async () => {
  const authority = await createAuthority('flynn test');
  const stranger = await createAuthority('flynn test');
  const addresses = ['127.0.0.1', 'h1.flynn'];
  const server = await issueCertificate(authority, { name: 'h1', addresses });
  const listener = createServer({
    ca: authority.certificate,
    cert: server.certificate,
    key: server.privateKey,
    requestCert: true,
    rejectUnauthorized: true,
  });
  listener.on('secureConnection', (socket) => socket.end(String(socket.getPeerCertificate().subject.CN)));
  const refusals: string[] = [];
  listener.on('tlsClientError', (error) => refusals.push(error.message));
  listener.listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  assert.ok(address !== null && typeof address === 'object');
  const ask = async (ca: string, by: Awaited<ReturnType<typeof issueCertificate>>): Promise<string> => {
    const socket = connect({ host: '127.0.0.1', port: address.port, ca, cert: by.certificate, key: by.privateKey });
    let text = '';
    for await (const chunk of socket) text += String(chunk);
    return text;
  };
  try {
    const client = await issueCertificate(authority, { name: 'controller' });
    assert.equal(await ask(authority.certificate, client), 'controller');
    const foreign = await issueCertificate(stranger, { name: 'controller' });
    // The refusal may come as an error or as an end, depending on what reaches the client first.
    const answers = await Promise.allSettled([ask(authority.certificate, foreign)]);
    assert.ok(answers.every((answer) => answer.status === 'rejected' || answer.value === ''));
    assert.equal(refusals.length, 1);
    await assert.rejects(ask(stranger.certificate, client), /certificate|signature/);
  } finally {
    listener.close();
  }
});

test('an authority that was made by a clock which was ahead counts once that is put right', async () => {
  const now = Date.parse('2026-06-01T12:00:00Z');
  for (const aheadMs of [2 * 3_600_000, 400 * 24 * 3_600_000]) {
    const { certificate } = await createAuthority('flynn test', { now: now + aheadMs });
    const { validFromDate, validToDate } = new X509Certificate(certificate);
    assert.ok(validFromDate.getTime() < now && now < validToDate.getTime(), validFromDate.toISOString());
  }
});

test('a certificate is due when two thirds of its time are over, or it is not for these addresses', async () => {
  const now = Date.parse('2030-01-01T00:00:00Z');
  const authority = await createAuthority('flynn test', { now });
  const { certificate } = await issueCertificate(authority, { name: 'h1', addresses: ['192.0.2.1'], now, days: 100 });
  const dueAfter = (days: number, addresses = ['192.0.2.1']): boolean =>
    isDue(certificate, { authority: authority.certificate, addresses, now: now + days * 24 * 3_600_000 });
  assert.equal(dueAfter(1), false);
  assert.equal(dueAfter(66), false);
  assert.equal(dueAfter(67), true);
  assert.equal(dueAfter(1, ['192.0.2.2']), true);
  assert.equal(dueAfter(1, ['h1.flynn']), true);
  const other = await createAuthority('flynn test', { now });
  assert.equal(isDue(certificate, { authority: other.certificate, now }), true);
});

test('a certificate that was made while the clock was ahead is due once the clock is right again, for nobody takes it', async () => {
  const now = Date.parse('2030-01-01T00:00:00Z');
  const hours = (count: number): number => now + count * 3_600_000;
  const authority = await createAuthority('flynn test', { now });
  const { certificate } = await issueCertificate(authority, { name: 'h1', now: hours(48) });
  const isDueAt = (at: number): boolean => isDue(certificate, { authority: authority.certificate, now: at });
  assert.equal(isDueAt(now), true);
  assert.equal(isDueAt(hours(46)), true);
  // As far as clocks of hosts may differ it counts before it is made.
  assert.equal(isDueAt(hours(47.5)), false);
  assert.equal(isDueAt(hours(48)), false);
});

test('an authority is told by its fingerprint, and signs with its own key only', async () => {
  const authority = await createAuthority('flynn test');
  const other = await createAuthority('flynn test');
  assert.match(fingerprintOf(authority.certificate), /^[0-9a-f]{64}$/);
  assert.notEqual(fingerprintOf(authority.certificate), fingerprintOf(other.certificate));
  assert.equal(new X509Certificate(authority.certificate).ca, true);
  const mixed = { certificate: authority.certificate, privateKey: other.privateKey };
  await assert.rejects(issueCertificate(mixed, { name: 'x' }), (error) => hasCode(error, 'invalid'));
  assert.throws(
    () => fingerprintOf('nothing'),
    (error) => hasCode(error, 'invalid'),
  );
});

test('what is derived of an authority is the same each time, and another authority', async () => {
  const authority = await createAuthority('flynn test');
  const [one, again, other] = await Promise.all([
    deriveAuthority(authority, 'flynn parts'),
    deriveAuthority(authority, 'flynn parts'),
    deriveAuthority(authority, 'flynn others'),
  ]);
  const { certificate } = await issueCertificate(one, { name: 'x', role: 'flynn:app/x' });
  assert.equal(isDue(certificate, { authority: again.certificate }), false);
  assert.equal(isDue(certificate, { authority: other.certificate }), true);
  assert.equal(isDue(certificate, { authority: authority.certificate }), true);
  assert.equal(new X509Certificate(one.certificate).validTo, new X509Certificate(authority.certificate).validTo);
});

test('a certificate names its role, and is due when it is to have another', async () => {
  const authority = await createAuthority('flynn test');
  const { certificate } = await issueCertificate(authority, {
    name: 'h1',
    role: 'flynn:host/h1',
    addresses: ['192.0.2.1', 'localhost'],
  });
  assert.equal(roleOf(new X509Certificate(certificate).subjectAltName), 'flynn:host/h1');
  assert.equal(isDue(certificate, { authority: authority.certificate, role: 'flynn:host/h1' }), false);
  assert.equal(isDue(certificate, { authority: authority.certificate, role: 'flynn:host/h2' }), true);
  const without = await issueCertificate(authority, { name: 'h1', addresses: ['192.0.2.1'] });
  assert.equal(isDue(without.certificate, { authority: authority.certificate, role: 'flynn:host/h1' }), true);
  const lying = await issueCertificate(authority, { name: 'x', addresses: ['x, URI:flynn:host/h1, DNS:y'] });
  assert.equal(roleOf(new X509Certificate(lying.certificate).subjectAltName), undefined);
});

test('whoever trusts one authority or both takes leaves of the new one where the endorsement is shown, and no stranger’s', async () => {
  const [former, next, stranger] = await Promise.all(['flynn', 'flynn', 'flynn'].map((name) => createAuthority(name)));
  assert.ok(former !== undefined && next !== undefined && stranger !== undefined);
  const endorsement = await endorse(next.certificate, former);
  const answerTo = async (ca: string, between: string): Promise<string> => {
    const leaf = await issueCertificate(next, { name: 'h1', addresses: ['127.0.0.1'] });
    const listener = createServer({ cert: leaf.certificate + between + next.certificate, key: leaf.privateKey });
    // The client says what it refuses.
    listener.on('tlsClientError', () => undefined);
    listener.listen(0, '127.0.0.1');
    await once(listener, 'listening');
    const address = listener.address();
    assert.ok(address !== null && typeof address === 'object');
    const socket = connect({ host: '127.0.0.1', port: address.port, ca });
    try {
      await once(socket, 'secureConnect');
      return 'trusted';
    } catch (error) {
      return error instanceof Error && 'code' in error ? String(error.code) : 'another error';
    } finally {
      socket.destroy();
      listener.close();
    }
  };
  const both = former.certificate + next.certificate;
  assert.equal(await answerTo(former.certificate, ''), 'SELF_SIGNED_CERT_IN_CHAIN');
  for (const trusted of [former.certificate, next.certificate, both, next.certificate + former.certificate]) {
    assert.equal(await answerTo(trusted, endorsement), 'trusted');
  }
  assert.equal(await answerTo(both, ''), 'trusted');
  assert.notEqual(await answerTo(stranger.certificate, endorsement), 'trusted');
  assert.notEqual(await answerTo(former.certificate, await endorse(next.certificate, stranger)), 'trusted');
  // It is an authority's of the same name alone, and ends with the first of both.
  await assert.rejects(endorse((await createAuthority('another')).certificate, former), /another name/);
  const now = Date.parse('2030-01-01T00:00:00Z');
  const later = await createAuthority('flynn', { now });
  const { validTo, validFrom } = new X509Certificate(await endorse(later.certificate, former));
  assert.equal(validTo, new X509Certificate(former.certificate).validTo);
  assert.equal(validFrom, new X509Certificate(later.certificate).validFrom);
});

test('a PEM of several certificates is taken apart in its order', async () => {
  const pems = await Promise.all(['a', 'b'].map(async (name) => (await createAuthority(name)).certificate));
  assert.deepEqual(certificatesIn(pems.join('')), pems);
  assert.deepEqual(certificatesIn('nothing of that kind'), []);
});
