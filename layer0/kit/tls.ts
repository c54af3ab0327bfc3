/** The cluster's certificates: an authority of its own, and what it signs. All keys are ECDSA P-256, everything is PEM. */
import {
  type KeyObject,
  type X509Certificate,
  createECDH,
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPair,
  hkdfSync,
  randomBytes,
  sign,
} from 'node:crypto';
import { isIP } from 'node:net';
import { promisify } from 'node:util';
import { parseCertificate } from './certificate.ts';
import {
  addressBytes,
  bits,
  elementsIn,
  explicit,
  implicit,
  integer,
  objectId,
  octets,
  sequence,
  set,
  smallInteger,
  text,
  time,
  yes,
} from './der.ts';
import { FlynnError } from './errors.ts';
import { roleOf } from './identity.ts';

/** PEM. Whoever has the key of an authority can be anyone in its cluster. */
export type Credentials = Readonly<{ certificate: string; privateKey: string }>;

const dayMs = 24 * 3_600_000;
const authorityDays = 10 * 365;
const certificateDays = 2 * 365;
/** Clocks of hosts differ: a certificate is good a little before it was made. */
const clockSkewMs = 3_600_000;
/** Of P-256: SEC 2, section 2.4.2. */
const groupOrder = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
/** Of a P-256 key in SPKI its point, uncompressed. */
const pointBytes = 65;
const ecdsaWithSha256 = sequence(objectId('1.2.840.10045.4.3.2'));
const version3 = explicit(0, smallInteger(2));
const makeKeys = promisify(generateKeyPair);

export async function createAuthority(name: string, options: { now?: number } = {}): Promise<Credentials> {
  const now = options.now ?? Date.now();
  const { privateKey } = await makeKeys('ec', { namedCurve: 'P-256' });
  const times = { notBefore: new Date(now - clockSkewMs), notAfter: new Date(now + authorityDays * dayMs) };
  return { certificate: selfSigned(name, privateKey, times), privateKey: keyPem(privateKey) };
}

/**
 * An authority beside another one, made of its key alone: whoever has that makes the same one, any number of times, with
 * nothing to hand over or to keep. Who trusts only the one does not trust the other's certificates. (HKDF, RFC 5869.)
 */
export function deriveAuthority(authority: Credentials, name: string): Credentials {
  const parent = parseCertificate(authority.certificate);
  const secret = createPrivateKey(authority.privateKey).export({ type: 'pkcs8', format: 'der' });
  // 16 bytes more than the group's order has: its remainder is as good as evenly spread.
  const random = BigInt(`0x${Buffer.from(hkdfSync('sha256', secret, '', name, 48)).toString('hex')}`);
  const scalar = Buffer.from(((random % (groupOrder - 1n)) + 1n).toString(16).padStart(64, '0'), 'hex');
  const pair = createECDH('prime256v1');
  pair.setPrivateKey(scalar);
  const point = pair.getPublicKey();
  const [d, x, y] = [scalar, point.subarray(1, 33), point.subarray(33)].map((part) => part.toString('base64url'));
  const key = createPrivateKey({ key: { kty: 'EC', crv: 'P-256', d, x, y }, format: 'jwk' });
  return { certificate: selfSigned(name, key, timesOf(parent)), privateKey: keyPem(key) };
}

function selfSigned(name: string, key: KeyObject, times: Times): string {
  const subject = nameOf(name);
  const publicKey = createPublicKey(key);
  const extensions = [...authorityExtensions(), subjectKeyExtension(publicKey)];
  return signed({ issuer: subject, subject, times, publicKey, extensions }, key);
}

/**
 * A certificate for an authority's key that another one of the same name has signed: who trusts only that one takes leaves of
 * the first, where it is shown right behind them. For OpenSSL: the other's path length is 0, from which one of the same name is
 * exempt (RFC 5280, 6.1.4), but not in Go. It ends with whichever of both ends first.
 */
export function endorse(authority: string, by: Credentials): string {
  const [subject, issuer] = [parseCertificate(authority), parseCertificate(by.certificate)];
  if (subject.subject !== issuer.subject) {
    throw new FlynnError('invalid', `${issuer.subject} cannot endorse ${subject.subject}: it has another name`);
  }
  const [one, other] = [timesOf(subject), timesOf(issuer)];
  const extensions = [...authorityExtensions(), subjectKeyExtension(subject.publicKey), issuerKeyExtension(issuer)];
  const times = {
    notBefore: one.notBefore > other.notBefore ? one.notBefore : other.notBefore,
    notAfter: one.notAfter < other.notAfter ? one.notAfter : other.notAfter,
  };
  return signed(
    { issuer: subjectOf(issuer), subject: subjectOf(subject), times, publicKey: subject.publicKey, extensions },
    signingKeyOf(by),
  );
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
  const { name, addresses = [], role, isServerOnly = false, days = certificateDays } = options;
  const now = options.now ?? Date.now();
  const issuer = parseCertificate(authority.certificate);
  const signingKey = signingKeyOf(authority);
  const { privateKey, publicKey } = await makeKeys('ec', { namedCurve: 'P-256' });
  const purposes = [serverPurpose, ...(isServerOnly ? [] : [clientPurpose])];
  const alternatives = [...(role === undefined ? [] : [uriName(role)]), ...addresses.map(addressName)];
  const certificate = signed(
    {
      issuer: subjectOf(issuer),
      subject: nameOf(name),
      times: { notBefore: new Date(now - clockSkewMs), notAfter: new Date(now + days * dayMs) },
      publicKey,
      extensions: [
        extension(constraints, sequence(), 'critical'),
        // Signing what is said during a handshake.
        extension(keyUsage, bits(Buffer.from([0x80]), 7), 'critical'),
        extension(extendedKeyUsage, sequence(...purposes.map(objectId))),
        ...(alternatives.length === 0 ? [] : [extension(alternativeNames, sequence(...alternatives))]),
        subjectKeyExtension(publicKey),
        issuerKeyExtension(issuer),
      ],
    },
    signingKey,
  );
  return { certificate, privateKey: keyPem(privateKey) };
}

type Times = Readonly<{ notBefore: Date; notAfter: Date }>;

type Unsigned = Readonly<{
  /** Names as they are in certificates. */
  issuer: Buffer;
  subject: Buffer;
  times: Times;
  publicKey: KeyObject;
  extensions: readonly Buffer[];
}>;

/** As PEM. (RFC 5280, 4.1.) */
function signed({ issuer, subject, times, publicKey, extensions }: Unsigned, key: KeyObject): string {
  const body = sequence(
    version3,
    integer(serialNumber()),
    ecdsaWithSha256,
    issuer,
    sequence(time(times.notBefore), time(times.notAfter)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    explicit(3, sequence(...extensions)),
  );
  const certificate = sequence(body, ecdsaWithSha256, bits(sign('sha256', body, key)));
  return parseCertificate(certificate).toString();
}

const constraints = '2.5.29.19';
const keyUsage = '2.5.29.15';
const extendedKeyUsage = '2.5.29.37';
const alternativeNames = '2.5.29.17';
const subjectKey = '2.5.29.14';
const issuerKey = '2.5.29.35';
const serverPurpose = '1.3.6.1.5.5.7.3.1';
const clientPurpose = '1.3.6.1.5.5.7.3.2';
const commonName = '2.5.4.3';

/** `critical`: who does not know it takes no certificate that has it. */
function extension(id: string, value: Buffer, weight?: 'critical'): Buffer {
  return sequence(objectId(id), ...(weight === undefined ? [] : [yes]), octets(value));
}

/** It signs leaves and lists of what was revoked, and no authority below it. */
function authorityExtensions(): Buffer[] {
  return [
    extension(constraints, sequence(yes, smallInteger(0)), 'critical'),
    extension(keyUsage, bits(Buffer.from([0x06]), 1), 'critical'),
  ];
}

function subjectKeyExtension(key: KeyObject): Buffer {
  return extension(subjectKey, octets(keyId(key)));
}

function issuerKeyExtension({ publicKey }: X509Certificate): Buffer {
  return extension(issuerKey, sequence(implicit(0, keyId(publicKey))));
}

/** RFC 5280, 4.2.1.2: it is a name, and no protection. */
function keyId(key: KeyObject): Buffer {
  const point = key.export({ type: 'spki', format: 'der' }).subarray(-pointBytes);
  return createHash('sha1').update(point).digest();
}

function nameOf(common: string): Buffer {
  return sequence(set(sequence(objectId(commonName), text(common))));
}

/** As it is in the certificate: what it issued names it by the same bytes. The sixth of what is signed. */
function subjectOf(certificate: X509Certificate): Buffer {
  const body = elementsIn(elementsIn(certificate.raw)[0]?.content ?? Buffer.alloc(0))[0];
  const subject = elementsIn(body?.content ?? Buffer.alloc(0))[5];
  if (subject === undefined) throw new FlynnError('invalid', 'this certificate has no subject');
  return subject.whole;
}

function timesOf({ validFrom, validTo }: X509Certificate): Times {
  return { notBefore: new Date(validFrom), notAfter: new Date(validTo) };
}

function uriName(uri: string): Buffer {
  return implicit(6, Buffer.from(uri, 'latin1'));
}

function addressName(address: string): Buffer {
  return isIP(address) === 0 ? implicit(2, Buffer.from(address, 'latin1')) : implicit(7, addressBytes(address));
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

function signingKeyOf(authority: Credentials): KeyObject {
  const key = createPrivateKey(authority.privateKey);
  if (!parseCertificate(authority.certificate).publicKey.equals(createPublicKey(key))) {
    throw new FlynnError('invalid', 'the key of the authority does not belong to its certificate');
  }
  return key;
}

function keyPem(key: KeyObject): string {
  return key.export({ type: 'pkcs8', format: 'pem' }).toString();
}

/** Positive, as the standard wants it. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16);
  bytes.writeUInt8(bytes.readUInt8(0) & 0x7f, 0);
  return bytes;
}
