/** Is this a certificate that clients will take for these names? If not, exactly why not. */
import { X509Certificate, createPrivateKey } from 'node:crypto';
import type { KeyObject } from 'node:crypto';
import tls, { createSecureContext } from 'node:tls';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Bundle } from './resources.ts';

const serverAuth = '1.3.6.1.5.5.7.3.1';

/** Throws `invalid` saying what is wrong and what to do. What only may surprise is in `notes`. */
export function checkCertificate(given: {
  certificate: string;
  privateKey: string;
  domains: readonly string[];
  nowMs: number;
}): Bundle {
  const chain = parseChain(given.certificate);
  const key = parseKey(given.privateKey);
  const [leaf] = chain;
  if (leaf === undefined) throw notPem(given.certificate);
  checkKey(chain, key);
  checkOrder(chain);
  checkTime(leaf, given.nowMs);
  checkPurpose(leaf);
  checkNames(leaf, given.domains);
  const notes = [...judgeIssuer(chain), ...judgeRest(chain.slice(1), given.nowMs)];
  const bundle = {
    certificate: chain.map((one) => one.toString()).join(''),
    privateKey: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    issuer: commonNameOf(leaf.issuer),
    notBefore: new Date(leaf.validFrom).toISOString(),
    notAfter: new Date(leaf.validTo).toISOString(),
    notes,
  };
  checkLoads(bundle);
  return bundle;
}

function parseChain(text: string): X509Certificate[] {
  const blocks = text.match(/-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----[^-]*-----END [A-Z0-9 ]+-----/g);
  if (blocks === null) throw notPem(text);
  return blocks.map((block, index) => {
    try {
      return new X509Certificate(block);
    } catch (error) {
      throw invalid(`certificate ${index + 1} of ${blocks.length} cannot be read: ${messageOf(error)}`, error);
    }
  });
}

function notPem(text: string): FlynnError {
  if (/-----BEGIN [A-Z ]*PRIVATE KEY-----/.test(text)) {
    return invalid('that is a private key, not a certificate: the two files seem to be exchanged');
  }
  if (text.includes('-----BEGIN CERTIFICATE REQUEST-----')) {
    return invalid('that is a request for a certificate: give what the authority answered to it');
  }
  return invalid(
    'the certificate is not PEM, which begins with -----BEGIN CERTIFICATE-----; from DER: openssl x509 -inform der -in FILE',
  );
}

function parseKey(text: string): KeyObject {
  if (/-----BEGIN ENCRYPTED PRIVATE KEY-----|^Proc-Type: 4,ENCRYPTED/m.test(text)) {
    throw invalid(
      'the private key is encrypted, and nobody is there to type its passphrase: openssl pkey -in KEY -out PLAIN',
    );
  }
  const block = /-----BEGIN (?:[A-Z]+ )?PRIVATE KEY-----[^-]*-----END [A-Z ]+-----/.exec(text)?.[0];
  if (block === undefined) {
    const isCertificate = text.includes('-----BEGIN CERTIFICATE-----');
    throw invalid(
      isCertificate
        ? 'that is a certificate, not a private key: the two files seem to be exchanged'
        : 'the private key is not PEM, which begins with -----BEGIN PRIVATE KEY-----; from DER: openssl pkey -inform der -in KEY',
    );
  }
  try {
    return createPrivateKey(block);
  } catch (error) {
    throw invalid(`the private key cannot be read: ${messageOf(error)}`, error);
  }
}

function checkKey(chain: readonly X509Certificate[], key: KeyObject): void {
  const place = chain.findIndex((one) => one.checkPrivateKey(key));
  if (place === 0) return;
  const [leaf] = chain;
  if (place > 0) {
    throw invalid(
      `the chain is out of order: the key belongs to certificate ${place + 1} (${subjectOf(chain[place])}), which has to come first`,
    );
  }
  throw invalid(`the private key belongs to another certificate than ${subjectOf(leaf)}`);
}

/** Each has to be signed by the next, or be of the same authority as that, signed by another one. */
function checkOrder(chain: readonly X509Certificate[]): void {
  for (const [index, one] of chain.entries()) {
    const next = chain[index + 1];
    if (next === undefined || isSignedBy(one, next) || isSameAuthority(one, next)) continue;
    const signer = chain.findIndex((other, place) => place !== index && isSignedBy(one, other));
    if (signer !== -1) {
      throw invalid(
        `the chain is out of order: certificate ${index + 1} (${subjectOf(one)}) is signed by certificate ${signer + 1} (${subjectOf(chain[signer])}), which has to follow it`,
      );
    }
    if (isSelfSigned(one)) {
      throw invalid(
        `the chain ends with certificate ${index + 1} (${subjectOf(one)}), which signs itself: leave out what comes after it`,
      );
    }
    throw invalid(
      `the chain has a gap: certificate ${index + 1} (${subjectOf(one)}) is signed by ${commonNameOf(one.issuer)}, but ${subjectOf(next)} comes next`,
    );
  }
}

function checkTime(leaf: X509Certificate, nowMs: number): void {
  const [from, to] = [Date.parse(leaf.validFrom), Date.parse(leaf.validTo)];
  if (nowMs >= to) throw invalid(`the certificate expired on ${dayOf(to)}`);
  if (nowMs < from) {
    throw invalid(`the certificate is good only from ${new Date(from).toISOString()} on: is the clock right?`);
  }
}

function checkPurpose(leaf: X509Certificate): void {
  // Node's types say it is always there; a certificate without the extension is good for everything.
  const purposes: readonly string[] | undefined = leaf.keyUsage;
  if (purposes === undefined || purposes.length === 0 || purposes.includes(serverAuth)) return;
  throw invalid('the certificate is not for servers: its extended key usage lacks serverAuth');
}

function checkNames(leaf: X509Certificate, domains: readonly string[]): void {
  for (const domain of domains) {
    if (covers(leaf, domain)) continue;
    const names = namesOf(leaf);
    const has = names.length === 0 ? 'it has no names (subjectAltName) at all' : `it is for ${listOf(names)}`;
    throw invalid(`the certificate does not cover ${domain}: ${has}`);
  }
}

/** What clients hold against it is the names alone: a subject's common name counts no more. */
function covers(leaf: X509Certificate, domain: string): boolean {
  if (domain.startsWith('*.')) return namesOf(leaf).includes(domain);
  return leaf.checkHost(domain, { subject: 'never', partialWildcards: false }) !== undefined;
}

function namesOf(leaf: X509Certificate): string[] {
  return [...(leaf.subjectAltName ?? '').matchAll(/DNS:([^,\s]+)/g)].map(([, name = '']) => name.toLowerCase());
}

let roots: ReadonlyMap<string, readonly X509Certificate[]> | undefined;

/** The public roots, by subject. Read once, when first asked for. */
function rootsBySubject(): ReadonlyMap<string, readonly X509Certificate[]> {
  roots ??= Map.groupBy(
    // Made when it is asked for, and so not among what a bundled program imports by name.
    tls.rootCertificates.map((pem) => new X509Certificate(pem)),
    (root) => root.subject,
  );
  return roots;
}

function judgeIssuer(chain: readonly X509Certificate[]): string[] {
  const last = chain.at(-1);
  if (last === undefined) return [];
  if (isSelfSigned(last)) {
    if (chain.length === 1) return ['it signs itself: clients warn unless they were told of it'];
    return isPublicRoot(last) ? [] : [`only clients that know ${subjectOf(last)} trust it`];
  }
  const issuer = commonNameOf(last.issuer);
  if (
    rootsBySubject()
      .get(last.issuer)
      ?.some((root) => isSignedBy(last, root)) === true
  )
    return [];
  // Public authorities say where their own certificate is; what is signed by such a one and comes without it is incomplete.
  const where = /CA Issuers - URI:(\S+)/.exec(last.infoAccess ?? '')?.[1];
  if (where !== undefined) {
    throw invalid(
      `the chain is incomplete: the certificate of ${issuer} has to follow ${subjectOf(last)}; it is at ${where}`,
    );
  }
  return [`signed by ${issuer}, which is not in the chain: only clients that know it trust it`];
}

function judgeRest(rest: readonly X509Certificate[], nowMs: number): string[] {
  return rest
    .filter((one) => Date.parse(one.validTo) <= nowMs)
    .map((one) => `${subjectOf(one)} in the chain expired on ${dayOf(Date.parse(one.validTo))}`);
}

/** What the routers' TLS refuses it has to be told now: too short a key, a signature of old. */
function checkLoads({ certificate, privateKey }: Pick<Bundle, 'certificate' | 'privateKey'>): void {
  try {
    createSecureContext({ cert: certificate, key: privateKey });
  } catch (error) {
    throw invalid(`routers could not serve this certificate: ${messageOf(error)}`, error);
  }
}

function isSignedBy(one: X509Certificate, other: X509Certificate): boolean {
  return one.checkIssued(other) && one.verify(other.publicKey);
}

/** What the one has signed the other may have: clients that trust neither's signer may trust the other's. */
function isSameAuthority(one: X509Certificate, other: X509Certificate): boolean {
  return one.ca && other.ca && one.subject === other.subject && one.publicKey.equals(other.publicKey);
}

function isSelfSigned(one: X509Certificate): boolean {
  return one.subject === one.issuer && one.verify(one.publicKey);
}

function isPublicRoot(one: X509Certificate): boolean {
  return (
    rootsBySubject()
      .get(one.subject)
      ?.some((root) => root.fingerprint256 === one.fingerprint256) === true
  );
}

function commonNameOf(name: string): string {
  return /^CN=(.*)$/m.exec(name)?.[1] ?? (name.replaceAll('\n', ', ') || 'nobody');
}

function subjectOf(one: X509Certificate | undefined): string {
  if (one === undefined) return 'nothing';
  return one.subject === '' ? (namesOf(one)[0] ?? 'without a name') : commonNameOf(one.subject);
}

function listOf(names: readonly string[]): string {
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ');
}

function dayOf(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}

function invalid(message: string, cause?: unknown): FlynnError {
  return new FlynnError('invalid', message, { cause });
}
