/** A certificate as people see it: never its key. Pure. */
import type { Certificate, ServedCertificate } from './model.ts';
import type { Bundle, CertificateResource } from './resources.ts';

/** What is served: of `acme` nothing until the authority has answered. */
export function bundleOf({ spec, status }: Pick<CertificateResource, 'spec' | 'status'>): Bundle | undefined {
  return spec.source === 'own' ? spec.own : status.issued;
}

export function viewCertificate(resource: CertificateResource, nowMs: number): Certificate {
  const { id, spec, status, createdAt, updatedAt } = resource;
  const bundle = bundleOf(resource);
  const { failure } = status;
  return {
    id,
    domains: [...spec.domains],
    source: spec.source,
    ...(bundle === undefined ? {} : { issuer: bundle.issuer, notBefore: bundle.notBefore, notAfter: bundle.notAfter }),
    ...standingOf(resource, nowMs),
    ...(failure === undefined ? {} : { nextTryAt: failure.nextTryAt }),
    createdAt,
    updatedAt,
  };
}

function standingOf(resource: CertificateResource, nowMs: number): Pick<Certificate, 'state' | 'why'> {
  const bundle = bundleOf(resource);
  const { failure } = resource.status;
  const isExpired = bundle !== undefined && Date.parse(bundle.notAfter) <= nowMs;
  const why = [
    ...(isExpired ? ['expired, and served still: clients warn'] : []),
    ...(failure === undefined ? [] : [failure.message]),
    ...(bundle?.notes ?? []),
  ].join('; ');
  if (isExpired) return { state: 'expired', why };
  if (failure !== undefined) return { state: 'failing', why };
  if (bundle === undefined) return { state: 'waiting', why: why || 'asked for at the authority' };
  return { state: 'ready', why };
}

export function servedOf(resource: CertificateResource): ServedCertificate {
  const { id, spec, status } = resource;
  const bundle = bundleOf(resource);
  return {
    id,
    domains: [...spec.domains],
    source: spec.source,
    ...(bundle === undefined
      ? {}
      : { certificate: bundle.certificate, privateKey: bundle.privateKey, notAfter: bundle.notAfter }),
    challenges: [...status.challenges],
  };
}
