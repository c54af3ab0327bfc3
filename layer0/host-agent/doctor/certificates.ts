/** Does a certificate end soon, or is it not valid yet? */
import { parseCertificate } from '@flynn/kit/certificate';
import { FlynnError } from '@flynn/kit/errors';
import type { Found } from './finding.ts';

const dayMs = 24 * 3_600_000;

export type KnownCertificate = Readonly<{
  /** `this host's certificate for etcd and other hosts`. */
  name: string;
  /** PEM; of a chain the first counts. */
  certificate: string;
  why: string;
  remedy: string;
  /** From when on it is a warning, in days before its end. */
  warnDays: number;
  /** From when on nobody may wait any longer. */
  criticalDays: number;
}>;

export function certificateFindings(subject: string, known: readonly KnownCertificate[], now: number): Found[] {
  return known.flatMap(({ name, certificate, why, remedy, warnDays, criticalDays }): Found[] => {
    const { validFromDate, validToDate } = validityOf(name, certificate);
    const end = validToDate.getTime();
    if (validFromDate.getTime() > now) {
      const what = `${name} is valid only from ${validFromDate.toISOString()} on: the clock is wrong, or the one that made it was`;
      return [{ severity: 'critical', subject, matter: name, what, why, remedy: 'look at the clocks: timedatectl' }];
    }
    const leftDays = Math.floor((end - now) / dayMs);
    if (leftDays >= warnDays) return [];
    const what =
      end <= now
        ? `${name} ended on ${validToDate.toISOString().slice(0, 10)}`
        : `${name} ends on ${validToDate.toISOString().slice(0, 10)}, in ${leftDays} days`;
    return [
      {
        severity: leftDays < criticalDays ? 'critical' : 'warning',
        subject,
        matter: name,
        what,
        since: new Date(end - warnDays * dayMs).toISOString(),
        why,
        remedy,
      },
    ];
  });
}

function validityOf(name: string, certificate: string): { validFromDate: Date; validToDate: Date } {
  try {
    const { validFromDate, validToDate } = parseCertificate(certificate);
    return { validFromDate, validToDate };
  } catch (error) {
    throw new FlynnError('invalid', `${name} cannot be read`, { cause: error });
  }
}
