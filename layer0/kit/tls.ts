/** The cluster's certificates: an authority of its own, and what it signs. All keys are ECDSA P-256, everything is PEM. */
import 'reflect-metadata';
import { createPrivateKey, createPublicKey, randomBytes, webcrypto } from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';
import { parseCertificate } from './certificate.ts';
import { FlynnError } from './errors.ts';

/** PEM. Whoever has the key of an authority can be anyone in its cluster. */
export type Credentials = Readonly<{ certificate: string; privateKey: string }>;

const dayMs = 24 * 3_600_000;
const authorityDays = 10 * 365;
const certificateDays = 2 * 365;
/** Clocks of hosts differ: a certificate is good a little before it was made. */
const clockSkewMs = 3_600_000;
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

export async function createAuthority(name: string, options: { now?: number } = {}): Promise<Credentials> {
  const now = options.now ?? Date.now();
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: `CN=${name}`,
    notBefore: new Date(now - clockSkewMs),
    notAfter: new Date(now + authorityDays * dayMs),
    signingAlgorithm: algorithm,
    keys,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return { certificate: `${certificate.toString('pem')}\n`, privateKey: await privateKeyPem(keys) };
}

/** A certificate for servers and, unless `isServerOnly`, clients, with a key of its own. `addresses`: host names and IP addresses. */
export async function issueCertificate(
  authority: Credentials,
  options: { name: string; addresses?: readonly string[]; isServerOnly?: boolean; now?: number; days?: number },
): Promise<Credentials> {
  const now = options.now ?? Date.now();
  const issuer = new x509.X509Certificate(authority.certificate);
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: `CN=${options.name}`,
    issuer: issuer.subject,
    notBefore: new Date(now - clockSkewMs),
    notAfter: new Date(now + (options.days ?? certificateDays) * dayMs),
    signingAlgorithm: algorithm,
    signingKey: await signingKeyOf(authority),
    publicKey: keys.publicKey,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([
        x509.ExtendedKeyUsage.serverAuth,
        ...(options.isServerOnly === true ? [] : [x509.ExtendedKeyUsage.clientAuth]),
      ]),
      new x509.SubjectAlternativeNameExtension(
        (options.addresses ?? []).map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value })),
      ),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return { certificate: `${certificate.toString('pem')}\n`, privateKey: await privateKeyPem(keys) };
}

/** Whether a certificate should be made again: of another authority, for other addresses, or three quarters over. */
export function isDue(
  certificate: string,
  options: { authority: string; addresses?: readonly string[]; now?: number },
): boolean {
  const now = options.now ?? Date.now();
  const parsed = parseCertificate(certificate);
  const from = Date.parse(parsed.validFrom);
  const until = Date.parse(parsed.validTo);
  if (now > until - (until - from) / 4) return true;
  const authority = parseCertificate(options.authority);
  if (!parsed.checkIssued(authority) || !parsed.verify(authority.publicKey)) return true;
  return (options.addresses ?? []).some((address) =>
    isIP(address) === 0 ? parsed.checkHost(address) === undefined : parsed.checkIP(address) === undefined,
  );
}

async function signingKeyOf(authority: Credentials): Promise<webcrypto.CryptoKey> {
  const key = createPrivateKey(authority.privateKey);
  if (!parseCertificate(authority.certificate).publicKey.equals(createPublicKey(key))) {
    throw new FlynnError('invalid', 'the key of the authority does not belong to its certificate');
  }
  const der = key.export({ type: 'pkcs8', format: 'der' });
  return webcrypto.subtle.importKey('pkcs8', der, algorithm, false, ['sign']);
}

async function privateKeyPem(keys: webcrypto.CryptoKeyPair): Promise<string> {
  const der = Buffer.from(await webcrypto.subtle.exportKey('pkcs8', keys.privateKey));
  return createPrivateKey({ key: der, type: 'pkcs8', format: 'der' })
    .export({ type: 'pkcs8', format: 'pem' })
    .toString();
}

/** Positive, as the standard wants it. */
function serialNumber(): string {
  const bytes = randomBytes(16);
  bytes.writeUInt8(bytes.readUInt8(0) & 0x7f, 0);
  return bytes.toString('hex');
}
