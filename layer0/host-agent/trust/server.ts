/** The agent's part of its API for certificates. */
import { fingerprintOf, parseCertificate } from '@flynn/kit/certificate';
import { FlynnError } from '@flynn/kit/errors';
import { type Handler, handle } from '@flynn/kit/http-server';
import { roleOf } from '@flynn/kit/identity';
import { type KnownCertificates, certificateRoutes } from './api.ts';
import type { HostTrust } from './host-trust.ts';

export function certificateHandlers(trust: HostTrust | undefined, hasJob: (jobId: string) => boolean): Handler[] {
  const known = (): HostTrust => {
    if (trust !== undefined) return trust;
    throw new FlynnError('not_found', 'this host has no certificates: it was set up without an authority');
  };
  return [
    handle(certificateRoutes.list, async () => listed(known(), hasJob)),
    handle(certificateRoutes.renew, async () => {
      await known().renew({ isForced: true });
      await known().jobs.renew({ hasJob, isForced: true });
      return listed(known(), hasJob);
    }),
  ];
}

/** Of jobs that are gone a certificate lies there until it ends: nobody shows it. */
async function listed({ identity, jobs }: HostTrust, hasJob: (jobId: string) => boolean): Promise<KnownCertificates> {
  const ofJobs = (await jobs.list())
    .filter(({ jobId }) => hasJob(jobId))
    .map(({ jobId, certificate }) => described(certificate, jobId));
  return [described(identity.current.certificate), ...ofJobs];
}

function described(certificate: string, jobId?: string): KnownCertificates[number] {
  const { subjectAltName, validFromDate, validToDate } = parseCertificate(certificate);
  return {
    role: roleOf(subjectAltName) ?? 'none',
    ...(jobId === undefined ? {} : { jobId }),
    validFrom: validFromDate.toISOString(),
    validTo: validToDate.toISOString(),
    fingerprint: fingerprintOf(certificate),
  };
}
