/** Which certificates of routes end soon, or do not come? Pure. */
import type { Found } from '@flynn/host-agent/doctor/finding';
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { CertificateResource } from '../certificates/resources.ts';

const dayMs = 24 * 3_600_000;
/** An authority's are renewed a month before their end: who has less than this has a problem. */
const warnDays = { own: 21, acme: 14 } as const;
const criticalDays = 3;
const failuresMark = 3;

const remedies = {
  own: 'flynn route cert add with a new one',
  acme: 'flynn route cert tells when it is tried next, and what is in the way',
  clusters: `${eitherCommand('up')} on the host that keeps the platform makes another`,
} as const;

/** What `up` makes for the controller, of the cluster's authority, and renews: people bring others for it. */
function isClusters(domains: readonly string[], issuer: string | undefined): boolean {
  return issuer === 'flynn' && domains.every((domain) => domain.startsWith('controller.'));
}

export function routeCertificateFindings(certificates: readonly CertificateResource[], now: number): Found[] {
  return certificates.flatMap(({ spec, status }): Found[] => {
    const { source, domains } = spec;
    const subject = `certificate ${domains[0] ?? ''}`;
    const why = 'browsers and programs refuse to talk to these names once it has ended';
    const failure = status.failure;
    const failing =
      failure === undefined ? '' : `; the last ${failure.count} tries to get another failed: ${failure.message}`;
    const bundle = spec.own ?? status.issued;
    const remedy = isClusters(domains, bundle?.issuer) ? remedies.clusters : remedies[source];
    if (bundle === undefined) {
      if (failure === undefined || failure.count < failuresMark) return [];
      return [{ severity: 'critical', subject, what: `there is none yet${failing}`, since: failure.at, why, remedy }];
    }
    const endMs = Date.parse(bundle.notAfter);
    const leftDays = Math.floor((endMs - now) / dayMs);
    if (leftDays >= warnDays[source]) return [];
    const what = endMs <= now ? `it ended on ${bundle.notAfter}` : `it ends on ${bundle.notAfter}, in ${leftDays} days`;
    return [
      {
        severity: leftDays < criticalDays ? 'critical' : 'warning',
        subject,
        what: `${what}${failing}`,
        since: new Date(endMs - warnDays[source] * dayMs).toISOString(),
        why,
        remedy,
      },
    ];
  });
}
