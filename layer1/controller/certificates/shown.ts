/** Is a certificate shown for a host name that clients take, as far as its time goes? Pure. */
import { isCovered } from './domains.ts';
import type { CertificateResource } from './resources.ts';
import { bundleOf, servedNames } from './view.ts';

export type Shown = Pick<CertificateResource, 'spec' | 'status'>;

export function isShownFor(name: string, certificates: Iterable<Shown>, nowMs: number): boolean {
  for (const certificate of certificates) {
    if (!servedNames(certificate).some((domain) => isCovered(domain, name))) continue;
    const bundle = bundleOf(certificate);
    if (bundle !== undefined && Date.parse(bundle.notAfter) > nowMs) return true;
  }
  return false;
}
