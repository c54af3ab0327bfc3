/** Does the host's certificate end soon? Its agent makes it again from two thirds of its life on. */
import { parseCertificate } from '@flynn/kit/certificate';

const dayMs = 24 * 3_600_000;
const warnedDays = 30;

/** What a person is to be told, if so. `now` in milliseconds since the epoch. */
export function certificateFault(certificate: string, now: number): string | undefined {
  const { validTo } = parseCertificate(certificate);
  const leftDays = Math.floor((Date.parse(validTo) - now) / dayMs);
  if (leftDays >= warnedDays) return undefined;
  const when = leftDays < 0 ? `ended on ${validTo}` : `ends in ${leftDays} days`;
  return `its certificate ${when}, and without one neither etcd nor other hosts talk to it: flynn-host certificates renew on it makes another`;
}
