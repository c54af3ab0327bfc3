/** The kind Certificate: for looking at. It is brought and taken away by commands, so that no key is ever in a file of objects. */
import { defineKind } from '../generic/kind.ts';
import { certificateType } from './resources.ts';
import { viewCertificate } from './view.ts';

export const certificateKind = defineKind({
  type: certificateType,
  summary: 'what routers show for a host name: your own, or from an authority by itself',
  names: ['cert', 'certs'],
  columns: { SOURCE: 'spec.source', EXPIRES: 'status.notAfter', STATE: 'status.state' },
  isReadOnly: true,
  async view({ now }, resource) {
    const { domains, source, issuer, notBefore, notAfter, state, why, nextTryAt } = viewCertificate(resource, now());
    return { spec: { domains, source }, status: { issuer, notBefore, notAfter, state, why, nextTryAt } };
  },
});
