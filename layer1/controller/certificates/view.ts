/** A certificate as people see it: never its key. Pure. */
import { isAmong } from './domains.ts';
import type { Certificate, ServedCertificate } from './model.ts';
import type { Bundle, CertificateResource } from './resources.ts';

/** What is served: of `acme` nothing until the authority has answered. */
export function bundleOf({ spec, status }: Pick<CertificateResource, 'spec' | 'status'>): Bundle | undefined {
  return spec.source === 'own' ? spec.own : status.issued;
}

/**
 * The names it is served for. Of `acme` those of its names that what was issued is for: with others it is asked for, and until the
 * authority has answered it would be a wrong one there.
 */
export function servedNames({ spec, status }: Pick<CertificateResource, 'spec' | 'status'>): string[] {
  if (spec.source === 'own') return [...spec.domains];
  const issued = new Set(status.issuedFor);
  return spec.domains.filter((name) => isAmong(issued, name));
}

/** Nobody asks for what people brought: a version before may have noted there that an order of before came to nothing. */
export function failureOf({ spec, status }: Pick<CertificateResource, 'spec' | 'status'>) {
  return spec.source === 'own' ? undefined : status.failure;
}

export function viewCertificate(resource: CertificateResource, nowMs: number): Certificate {
  const { id, spec, createdAt, updatedAt } = resource;
  const bundle = bundleOf(resource);
  const failure = failureOf(resource);
  return {
    id,
    domains: [...spec.domains],
    servedFor: servedNames(resource),
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
  const failure = failureOf(resource);
  const served = servedNames(resource);
  const isWaiting = bundle === undefined || served.length < resource.spec.domains.length;
  const isExpired = bundle !== undefined && Date.parse(bundle.notAfter) <= nowMs;
  const why = [
    ...(isExpired ? ['expired, and served still: clients warn'] : []),
    ...(failure === undefined ? [] : [failure.message]),
    ...(isWaiting && failure === undefined ? ['asked for at the authority'] : []),
    ...(isWaiting && bundle !== undefined ? [`until there is another this one is for ${served.join(', ')} alone`] : []),
    ...(bundle?.notes ?? []),
  ].join('; ');
  if (isExpired) return { state: 'expired', why };
  if (failure !== undefined) return { state: 'failing', why };
  return { state: isWaiting ? 'waiting' : 'ready', why };
}

export function servedOf(resource: CertificateResource): ServedCertificate {
  const { id, spec, status } = resource;
  const bundle = bundleOf(resource);
  return {
    id,
    domains: servedNames(resource),
    source: spec.source,
    ...(bundle === undefined
      ? {}
      : { certificate: bundle.certificate, privateKey: bundle.privateKey, notAfter: bundle.notAfter }),
    challenges: spec.source === 'own' ? [] : [...status.challenges],
  };
}
