/** The kind Certificate: for looking at. It is brought and taken away by commands, so that no key is ever in a file of objects. */
import { defineKind } from '../generic/kind.ts';
import { issuing, naming } from './acme/controllers.ts';
import { acmeType } from './acme/resources.ts';
import { certificateType } from './resources.ts';
import { ticketing } from './tickets.ts';
import { viewCertificate } from './view.ts';

export const certificateKind = defineKind({
  type: certificateType,
  summary: 'what routers show for a host name: your own, or from an authority by itself',
  names: ['cert', 'certs'],
  columns: { SOURCE: 'spec.source', EXPIRES: 'status.notAfter', STATE: 'status.state' },
  isReadOnly: true,
  controllers: [issuing, naming, ticketing],
  async view({ now }, resource) {
    const { domains, source, issuer, notBefore, notAfter, state, why, nextTryAt } = viewCertificate(resource, now());
    return { spec: { domains, source }, status: { issuer, notBefore, notAfter, state, why, nextTryAt } };
  },
});

export const acmeKind = defineKind({
  type: acmeType,
  summary: 'the authority that certificates come from by themselves',
  columns: { DIRECTORY: 'spec.directoryUrl', CHALLENGE: 'spec.challenge' },
  isReadOnly: true,
  async view(_deps, { spec, status }) {
    const { directoryUrl, contact, challenge, isAutomatic } = spec;
    return { spec: { directoryUrl, contact, challenge, isAutomatic }, status: { ...status } };
  },
});
