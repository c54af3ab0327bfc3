/** Reading certificates: what needs no more than Node. Making them is `tls.ts`. */
import { X509Certificate, createHash } from 'node:crypto';
import { FlynnError, messageOf } from './errors.ts';

/** SHA-256 of the certificate, in lower-case hexadecimal: short enough to be handed over by a person. */
export function fingerprintOf(certificate: string): string {
  return createHash('sha256').update(parseCertificate(certificate).raw).digest('hex');
}

/** Throws `invalid` for what is none. */
export function parseCertificate(certificate: string): X509Certificate {
  try {
    return new X509Certificate(certificate);
  } catch (error) {
    throw new FlynnError('invalid', `this is no certificate: ${messageOf(error)}`, { cause: error });
  }
}

/** Each certificate of a PEM that has several, in their order; none where there is none. */
export function certificatesIn(pem: string): string[] {
  return (pem.match(/-----BEGIN CERTIFICATE-----[^]*?-----END CERTIFICATE-----/g) ?? []).map((one) => `${one}\n`);
}

/** Whether it is of the key of the first authority, signed by the other one; both PEM. */
export function isEndorsement(
  certificate: X509Certificate,
  { authority, former }: { authority: string; former: string },
): boolean {
  const { publicKey } = parseCertificate(authority);
  return (
    certificate.ca && certificate.publicKey.equals(publicKey) && certificate.verify(parseCertificate(former).publicKey)
  );
}
