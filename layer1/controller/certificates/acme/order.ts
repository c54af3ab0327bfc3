/** What is noted of an order, of who has the seat, and as long as it is of use. */
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../../deps.ts';
import { certificateType } from '../resources.ts';
import type { Bundle, CertificateResource } from '../resources.ts';
import { servedNames } from '../view.ts';
import type { openAuthority } from './authority.ts';
import { areSame } from './schedule.ts';

export type StepDeps = Pick<Deps, 'resources' | 'now' | 'log'> & {
  cell: Pick<Deps['cell'], 'hosts'>;
  settings: Pick<Deps['settings'], 'httpPort' | 'httpsPort'>;
};
export type StepOptions = { signal: AbortSignal; epoch?: Compare; open?: typeof openAuthority; random?: () => number };

type Status = CertificateResource['status'];

/** What came of an order. If another certificate is wanted there by now, brought or for other names, its status is its own. */
export async function note(
  { resources }: StepDeps,
  ordered: CertificateResource,
  change: (status: Status) => Status,
  options: StepOptions,
): Promise<CertificateResource> {
  return resources.updateStatus(
    certificateType,
    ordered.id,
    (one) => (isStillFor(one, ordered) ? change(one.status) : { ...one.status, challenges: [] }),
    guarded(options),
  );
}

/** What the authority gave for these names, also if others are wanted by now: it is good for those that it is for. */
export async function noteIssued(
  { resources, now }: StepDeps,
  ordered: CertificateResource,
  { issued, domains }: { issued: Bundle; domains: readonly string[] },
  options: StepOptions,
): Promise<CertificateResource> {
  return resources.updateStatus(
    certificateType,
    ordered.id,
    (one) => {
      if (!isGain(one, domains, now())) return { ...one.status, challenges: [] };
      const { failure, records } = one.status;
      // For the others it is asked on, as that failure says.
      const isOpen = failure !== undefined && !areSame(domains, one.spec.domains);
      return { issued, issuedFor: [...domains], challenges: [], records, ...(isOpen ? { failure } : {}) };
    },
    guarded(options),
  );
}

/** Whether one for these names is for some that are wanted, and takes none away that there is one for. */
function isGain(one: CertificateResource, domains: readonly string[], nowMs: number): boolean {
  const { spec, status } = one;
  if (spec.source !== 'acme') return false;
  const gained = servedNames({ spec, status: { ...status, issuedFor: [...domains] } });
  const isOver = status.issued === undefined || Date.parse(status.issued.notAfter) <= nowMs;
  return gained.length > 0 && (isOver || servedNames(one).every((name) => gained.includes(name)));
}

export function isStillFor({ spec }: CertificateResource, ordered: CertificateResource): boolean {
  return spec.source === ordered.spec.source && areSame(spec.domains, ordered.spec.domains);
}

/** A worker that lost its seat writes nothing. */
export function guarded({ signal, epoch }: StepOptions) {
  return { signal, ...(epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) }) };
}
