import assert from 'node:assert/strict';
import { createPrivateKey, generateKeyPairSync } from 'node:crypto';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { createAuthority, endorse, issueCertificate } from '@flynn/kit/tls';
import { clientLeaf, issuing, leaf, leafKey, nowMs, root, weak } from './chain-fixture.ts';
import { checkCertificate } from './check.ts';

type Given = Parameters<typeof checkCertificate>[0];

const good: Given = { certificate: leaf + issuing, privateKey: leafKey, domains: ['shop.example.com'], nowMs };

function refusalOf(given: Partial<Given>): string {
  try {
    checkCertificate({ ...good, ...given });
  } catch (error) {
    assert.ok(hasCode(error, 'invalid'), String(error));
    return error.message;
  }
  return assert.fail('it was taken');
}

test('a whole chain is taken, in canonical form, with what it says of itself', () => {
  const taken = checkCertificate({ ...good, certificate: `Bag Attributes\n  x: y\n${leaf}\r\n${issuing}${root}` });
  assert.equal(taken.issuer, 'Example Issuing');
  assert.match(taken.notAfter, /^2126-/);
  assert.equal(taken.certificate.match(/BEGIN CERTIFICATE/g)?.length, 3);
  assert.ok(taken.certificate.startsWith('-----BEGIN'));
  assert.deepEqual(taken.notes, ['only clients that know Example Root trust it']);
});

test('a wildcard covers one label, and itself', () => {
  for (const domain of ['*.shop.example.com', 'a.shop.example.com']) {
    assert.ok(checkCertificate({ ...good, certificate: leaf + issuing + root, domains: [domain] }));
  }
  const whole = leaf + issuing + root;
  assert.match(
    refusalOf({ certificate: whole, domains: ['a.b.shop.example.com'] }),
    /does not cover a\.b\.shop\.example\.com: it is for shop\.example\.com, \*\.shop\.example\.com$/,
  );
  assert.match(refusalOf({ certificate: whole, domains: ['*.example.com'] }), /does not cover \*\.example\.com/);
});

test('what is no certificate or no key is told apart', () => {
  assert.match(refusalOf({ certificate: leafKey }), /private key, not a certificate.*exchanged/);
  assert.match(refusalOf({ privateKey: leaf }), /certificate, not a private key.*exchanged/);
  assert.match(refusalOf({ certificate: '0\u0082\u0001' }), /not PEM.*openssl x509 -inform der/);
  assert.match(refusalOf({ privateKey: 'x' }), /not PEM.*openssl pkey -inform der/);
  assert.match(
    refusalOf({ certificate: '-----BEGIN CERTIFICATE REQUEST-----\nAA\n-----END CERTIFICATE REQUEST-----' }),
    /request for a certificate/,
  );
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n';
  assert.match(refusalOf({ certificate: leaf + broken }), /certificate 2 of 2 cannot be read/);
  const brokenKey = '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n';
  assert.match(refusalOf({ privateKey: brokenKey }), /private key cannot be read/);
});

test('an encrypted key is refused with the command that makes it plain, in both of its forms', () => {
  const key = createPrivateKey(leafKey);
  const protectedBy = { cipher: 'aes-256-cbc', passphrase: 'x' };
  const modern = key.export({ type: 'pkcs8', format: 'pem', ...protectedBy }).toString();
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 });
  const old = privateKey.export({ type: 'pkcs1', format: 'pem', ...protectedBy }).toString();
  for (const text of [modern, old]) {
    assert.match(refusalOf({ privateKey: text }), /key is encrypted.*openssl pkey -in KEY -out PLAIN/);
  }
});

test('a key of something else, and one of a later certificate of the chain', () => {
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const other = privateKey.export({ type: 'sec1', format: 'pem' }).toString();
  assert.match(refusalOf({ privateKey: other }), /belongs to another certificate than shop\.example\.com/);
  assert.match(
    refusalOf({ certificate: issuing + leaf }),
    /out of order: the key belongs to certificate 2 \(shop\.example\.com\), which has to come first/,
  );
});

test('a chain out of order, with a gap, with something after its end, and without its middle', () => {
  assert.match(
    refusalOf({ certificate: leaf + root + issuing }),
    /out of order: certificate 1 \(shop\.example\.com\) is signed by certificate 3 \(Example Issuing\), which has to follow it/,
  );
  assert.match(
    refusalOf({ certificate: leaf + root }),
    /gap: certificate 1 \(shop\.example\.com\) is signed by Example Issuing, but Example Root comes next/,
  );
  assert.match(
    refusalOf({ certificate: leaf + issuing + root + issuing }),
    /ends with certificate 3 \(Example Root\), which signs itself/,
  );
  assert.match(
    refusalOf({ certificate: leaf }),
    /incomplete: the certificate of Example Issuing has to follow shop\.example\.com; it is at http:\/\/pki\.example\.com\/issuing\.cer/,
  );
});

test('the time and the purpose of the leaf', () => {
  assert.match(refusalOf({ nowMs: Date.UTC(2127, 0, 1) }), /expired on 2126-10-28/);
  assert.match(refusalOf({ nowMs: Date.UTC(2020, 0, 1) }), /good only from 2026-.*is the clock right/);
  assert.match(refusalOf({ certificate: clientLeaf + issuing }), /not for servers/);
});

test('one of an authority of your own, and one that signs itself, are taken and what that means is told', async () => {
  const authority = await createAuthority('Ours', { now: nowMs });
  const own = await issueCertificate(authority, { name: 'x', addresses: ['x.example.com'], now: nowMs });
  const taken = checkCertificate({ ...good, ...own, domains: ['x.example.com'] });
  assert.deepEqual(taken.notes, ['signed by Ours, which is not in the chain: only clients that know it trust it']);
  assert.deepEqual(
    checkCertificate({ ...own, certificate: own.certificate + authority.certificate, domains: [], nowMs }).notes,
    ['only clients that know Ours trust it'],
  );
  assert.deepEqual(checkCertificate({ ...authority, domains: [], nowMs }).notes, [
    'it signs itself: clients warn unless they were told of it',
  ]);
  assert.match(
    refusalOf({ ...authority, domains: ['x.example.com'] }),
    /does not cover x\.example\.com: it has no names \(subjectAltName\) at all/,
  );
});

test('an authority of your own whose key another one has signed may be in the chain in both forms, the signed one first', async () => {
  const [former, ours] = await Promise.all(['Ours', 'Ours'].map((name) => createAuthority(name, { now: nowMs })));
  assert.ok(former !== undefined && ours !== undefined);
  const own = await issueCertificate(ours, { name: 'x', addresses: ['x.example.com'], now: nowMs });
  const endorsement = await endorse(ours.certificate, former);
  const given = { ...own, domains: ['x.example.com'] };
  const taken = checkCertificate({ ...good, ...given, certificate: own.certificate + endorsement + ours.certificate });
  assert.deepEqual(taken.notes, ['only clients that know Ours trust it']);
  const foreign = own.certificate + endorsement + (await createAuthority('Ours', { now: nowMs })).certificate;
  assert.match(refusalOf({ ...given, certificate: foreign }), /has a gap/);
});

test('what routers’ TLS would refuse is refused here: too short a key', () => {
  assert.match(refusalOf({ ...weak, domains: ['weak.test'] }), /routers could not serve this certificate/);
});
