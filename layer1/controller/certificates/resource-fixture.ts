/** For tests: certificates as the store has them. */
import type { CertificateResource } from './resources.ts';

/** One of an authority for example.com that nobody has asked for yet, but for what is given. */
export function certificateOf(
  spec: Partial<CertificateResource['spec']> = {},
  status: Partial<CertificateResource['status']> = {},
): CertificateResource {
  const domains = spec.domains ?? ['example.com'];
  return {
    type: 'certificate',
    id: domains.join('+'),
    uid: 'u',
    revision: 1,
    generation: 1,
    createdAt: '',
    updatedAt: '',
    labels: {},
    finalizers: [],
    waitingFor: {},
    conditions: [],
    spec: { source: 'acme', isAutomatic: false, ...spec, domains },
    status: { issuedFor: [], challenges: [], records: [], ...status },
  };
}
