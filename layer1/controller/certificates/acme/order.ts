/** What is noted of an order, of who has the seat, and as long as it is of use. */
import type { Compare } from '@flynn/store/store';
import type { Deps } from '../../deps.ts';
import { certificateType } from '../resources.ts';
import type { CertificateResource } from '../resources.ts';
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

export function isStillFor({ spec }: CertificateResource, ordered: CertificateResource): boolean {
  return spec.source === ordered.spec.source && areSame(spec.domains, ordered.spec.domains);
}

/** A worker that lost its seat writes nothing. */
export function guarded({ signal, epoch }: StepOptions) {
  return { signal, ...(epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) }) };
}
