/** The cluster's certificates: an authority of its own, and what it signs. All keys are ECDSA P-256, everything is PEM. */
import 'reflect-metadata';
import {
  type X509Certificate,
  createECDH,
  createPrivateKey,
  createPublicKey,
  hkdfSync,
  randomBytes,
  webcrypto,
} from 'node:crypto';
import { isIP } from 'node:net';
import * as x509 from '@peculiar/x509';
import { parseCertificate } from './certificate.ts';
import { FlynnError } from './errors.ts';
import { roleOf } from './identity.ts';

/** PEM. Whoever has the key of an authority can be anyone in its cluster. */
export type Credentials = Readonly<{ certificate: string; privateKey: string }>;

const dayMs = 24 * 3_600_000;
const authorityDays = 10 * 365;
const certificateDays = 2 * 365;
/** Clocks of hosts differ: a certificate is good a little before it was made. */
const clockSkewMs = 3_600_000;
/**
 * From when on authorities count. Nobody makes one again because a clock was ahead when it was made, and until that moment has come
 * nothing of the cluster would be let in anywhere. What they sign says itself when it was made.
 */
const authoritiesSince = Date.parse('2020-01-01T00:00:00Z');
/** Of P-256: SEC 2, section 2.4.2. */
const groupOrder = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const;

export async function createAuthority(name: string, options: { now?: number } = {}): Promise<Credentials> {
  const now = options.now ?? Date.now();
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ['sign', 'verify']);
  const times = {
    notBefore: new Date(Math.min(authoritiesSince, now - clockSkewMs)),
    notAfter: new Date(now + authorityDays * dayMs),
  };
  return { certificate: await selfSigned(name, keys, times), privateKey: await privateKeyPem(keys) };
}

/**
 * An authority beside another one, made of its key alone: whoever has that makes the same one, any number of times, with
 * nothing to hand over or to keep. Who trusts only the one does not trust the other's certificates. (HKDF, RFC 5869.)
 */
export async function deriveAuthority(authority: Credentials, name: string): Promise<Credentials> {
  const parent = new x509.X509Certificate(authority.certificate);
  const secret = createPrivateKey(authority.privateKey).export({ type: 'pkcs8', format: 'der' });
  // 16 bytes more than the group's order has: its remainder is as good as evenly spread.
  const random = BigInt(`0x${Buffer.from(hkdfSync('sha256', secret, '', name, 48)).toString('hex')}`);
  const scalar = Buffer.from(((random % (groupOrder - 1n)) + 1n).toString(16).padStart(64, '0'), 'hex');
  const pair = createECDH('prime256v1');
  pair.setPrivateKey(scalar);
  const point = pair.getPublicKey();
  const [d, x, y] = [scalar, point.subarray(1, 33), point.subarray(33)].map((part) => part.toString('base64url'));
  const key = createPrivateKey({ key: { kty: 'EC', crv: 'P-256', d, x, y }, format: 'jwk' });
  const keys = {
    privateKey: await importKey(key.export({ type: 'pkcs8', format: 'der' })),
    publicKey: await webcrypto.subtle.importKey(
      'spki',
      createPublicKey(key).export({ type: 'spki', format: 'der' }),
      algorithm,
      true,
      ['verify'],
    ),
  };
  const times = { notBefore: parent.notBefore, notAfter: parent.notAfter };
  return {
    certificate: await selfSigned(name, keys, times),
    privateKey: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

async function selfSigned(
  name: string,
  keys: webcrypto.CryptoKeyPair,
  times: { notBefore: Date; notAfter: Date },
): Promise<string> {
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    serialNumber: serialNumber(),
    name: `CN=${name}`,
    ...times,
    signingAlgorithm: algorithm,
    keys,
    extensions: [...authorityExtensions(), await x509.SubjectKeyIdentifierExtension.create(keys.publicKey)],
  });
  return `${certificate.toString('pem')}\n`;
}

/** It signs leaves, and no authority below it. */
function authorityExtensions(): x509.Extension[] {
  return [
    new x509.BasicConstraintsExtension(true, 0, true),
    new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign, true),
  ];
}

/**
 * A certificate for an authority's key that another one of the same name has signed: who trusts only that one takes leaves of
 * the first, where it is shown right behind them. For OpenSSL: the other's path length is 0, from which one of the same name is
 * exempt (RFC 5280, 6.1.4), but not in Go. It ends with whichever of both ends first.
 */
export async function endorse(authority: string, by: Credentials): Promise<string> {
  const [subject, issuer] = [new x509.X509Certificate(authority), new x509.X509Certificate(by.certificate)];
  if (subject.subject !== issuer.subject) {
    throw new FlynnError('invalid', `${issuer.subject} cannot endorse ${subject.subject}: it has another name`);
  }
  const certificate = await x509.X509CertificateGenerator.create({
    serialNumber: serialNumber(),
    subject: subject.subject,
    issuer: issuer.subject,
    notBefore: subject.notBefore > issuer.notBefore ? subject.notBefore : issuer.notBefore,
    notAfter: subject.notAfter < issuer.notAfter ? subject.notAfter : issuer.notAfter,
    signingAlgorithm: algorithm,
    signingKey: await signingKeyOf(by),
    publicKey: subject.publicKey,
    extensions: [
      ...authorityExtensions(),
      await x509.SubjectKeyIdentifierExtension.create(subject.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return `${certificate.toString('pem')}\n`;
}

/**
 * A certificate for servers and, unless `isServerOnly`, clients, with a key of its own. `addresses`: host names and IP
 * addresses; `role`: who it is to others of the cluster, a URI.
 */
export async function issueCertificate(
  authority: Credentials,
  options: {
    name: string;
    addresses?: readonly string[];
    role?: string;
    isServerOnly?: boolean;
    now?: number;
    days?: number;
  },
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
      new x509.SubjectAlternativeNameExtension([
        ...(options.role === undefined ? [] : [{ type: 'url' as const, value: options.role }]),
        ...(options.addresses ?? []).map((value) => ({ type: isIP(value) === 0 ? 'dns' : 'ip', value }) as const),
      ]),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  });
  return { certificate: `${certificate.toString('pem')}\n`, privateKey: await privateKeyPem(keys) };
}

/**
 * Whether a certificate should be made again: of another authority, for others, two thirds of its time over, or that not begun,
 * which a clock made that was ahead and has been put right. Of what is not said anything will do.
 */
export function isDue(
  certificate: string,
  options: { authority?: string; addresses?: readonly string[]; role?: string; now?: number },
): boolean {
  const now = options.now ?? Date.now();
  const parsed = parseCertificate(certificate);
  const from = Date.parse(parsed.validFrom);
  const until = Date.parse(parsed.validTo);
  if (now < from || now > until - (until - from) / 3) return true;
  if (options.role !== undefined && roleOf(parsed.subjectAltName) !== options.role) return true;
  if (options.authority !== undefined && !isIssuedBy(parsed, options.authority)) return true;
  return (options.addresses ?? []).some((address) =>
    isIP(address) === 0 ? parsed.checkHost(address) === undefined : parsed.checkIP(address) === undefined,
  );
}

function isIssuedBy(certificate: X509Certificate, authority: string): boolean {
  const issuer = parseCertificate(authority);
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey);
}

async function signingKeyOf(authority: Credentials): Promise<webcrypto.CryptoKey> {
  const key = createPrivateKey(authority.privateKey);
  if (!parseCertificate(authority.certificate).publicKey.equals(createPublicKey(key))) {
    throw new FlynnError('invalid', 'the key of the authority does not belong to its certificate');
  }
  return importKey(key.export({ type: 'pkcs8', format: 'der' }));
}

function importKey(der: Buffer): Promise<webcrypto.CryptoKey> {
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
