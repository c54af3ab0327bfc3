/** Which certificates of routes end soon, or do not come? Pure. */
import type { Found } from '@flynn/host-agent/doctor/finding';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { renewalMs } from '../certificates/acme/schedule.ts';
import type { Bundle, CertificateResource } from '../certificates/resources.ts';
import { bundleOf, failureOf, servedNames } from '../certificates/view.ts';

const minuteMs = 60_000;
const hourMs = 60 * minuteMs;
const dayMs = 24 * hourMs;
/** Of people's own: they need time to get another. */
const warnMs = 21 * dayMs;
const criticalMs = 3 * dayMs;
/**
 * Of an authority's, which live for days or for months: shares of the life. One is renewed by itself at a known moment: it is told
 * of when it is still the same so much later.
 */
const overdueShare = 0.1;
const criticalShare = 0.1;
/** Tries in a row for a name that has none: half an hour of them. */
const failuresMark = 3;
/** For one that there still is: half a day of them. An authority may be away for some hours. */
const renewalFailuresMark = 8;

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
  return certificates.flatMap((certificate): Found[] => {
    const { source, domains } = certificate.spec;
    const subject = `certificate ${domains[0] ?? ''}`;
    const why = 'browsers and programs refuse to talk to these names once it has ended';
    const failure = failureOf(certificate);
    const failing =
      failure === undefined ? '' : `; the last ${failure.count} tries to get another failed: ${failure.message}`;
    const bundle = bundleOf(certificate);
    const remedy = isClusters(domains, bundle?.issuer) ? remedies.clusters : remedies[source];
    if (bundle === undefined) {
      if (failure === undefined || failure.count < failuresMark) return [];
      return [{ severity: 'critical', subject, what: `there is none yet${failing}`, since: failure.at, why, remedy }];
    }
    const trouble = source === 'own' ? ownTrouble(bundle, now) : issuedTrouble(certificate, bundle, now);
    if (trouble === undefined) return [];
    const served = servedNames(certificate);
    const missing = domains.filter((name) => !served.includes(name));
    const lacking = missing.length === 0 ? '' : `there is none for ${missing.join(', ')} yet; for the others `;
    return [{ ...trouble, subject, what: `${lacking}${endOf(bundle, now)}${failing}`, why, remedy }];
  });
}

type Trouble = Pick<Found, 'severity' | 'since'>;

function ownTrouble({ notAfter }: Bundle, now: number): Trouble | undefined {
  const endMs = Date.parse(notAfter);
  if (endMs - now >= warnMs) return undefined;
  const severity = endMs - now < criticalMs ? 'critical' : 'warning';
  return { severity, since: new Date(endMs - warnMs).toISOString() };
}

function issuedTrouble(certificate: CertificateResource, bundle: Bundle, now: number): Trouble | undefined {
  const { id, spec } = certificate;
  const endMs = Date.parse(bundle.notAfter);
  const lifeMs = endMs - Date.parse(bundle.notBefore);
  const overdueMs = renewalMs(id, bundle) + overdueShare * lifeMs;
  const severity = endMs - now < criticalShare * lifeMs ? 'critical' : 'warning';
  if (now >= overdueMs) return { severity, since: new Date(overdueMs).toISOString() };
  const failure = failureOf(certificate);
  const mark = servedNames(certificate).length < spec.domains.length ? failuresMark : renewalFailuresMark;
  return failure === undefined || failure.count < mark ? undefined : { severity, since: failure.at };
}

function endOf({ notAfter }: Bundle, now: number): string {
  const leftMs = Date.parse(notAfter) - now;
  if (leftMs <= 0) return `it ended on ${notAfter}`;
  const [unit, ms] =
    leftMs >= 2 * dayMs ? ['days', dayMs] : leftMs >= 2 * hourMs ? ['hours', hourMs] : ['minutes', minuteMs];
  return `it ends on ${notAfter}, in ${Math.floor(leftMs / ms)} ${unit}`;
}
