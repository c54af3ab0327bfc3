/** Is a certificate shown for a host name that clients take, as far as its time goes? Pure. */
import { isCovered } from './domains.ts';
import type { CertificateResource } from './resources.ts';
import { bundleOf, servedNames } from './view.ts';

export type Shown = Pick<CertificateResource, 'spec' | 'status'>;

export function isShownFor(name: string, certificates: Iterable<Shown>, nowMs: number): boolean {
  for (const certificate of certificates) {
    // Of thousands most are for other names, whatever was issued.
    if (!certificate.spec.domains.some((domain) => isCovered(domain, name))) continue;
    if (isGood(certificate, nowMs) && servedNames(certificate).some((domain) => isCovered(domain, name))) return true;
  }
  return false;
}

/** All that one is shown for: names, and wildcards, which stand for more. */
export function shownNames(certificates: Iterable<Shown>, nowMs: number): Set<string> {
  const names = new Set<string>();
  for (const certificate of certificates) {
    if (isGood(certificate, nowMs)) for (const name of servedNames(certificate)) names.add(name);
  }
  return names;
}

function isGood(certificate: Shown, nowMs: number): boolean {
  const bundle = bundleOf(certificate);
  return bundle !== undefined && Date.parse(bundle.notAfter) > nowMs;
}
