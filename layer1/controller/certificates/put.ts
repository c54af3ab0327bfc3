/** A certificate by its first name: found, and put in the place of what there was. */
import { hasCode, ifFound } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Deps } from '../deps.ts';
import { certificateType } from './resources.ts';
import type { CertificateResource } from './resources.ts';

const maxAttempts = 5;

export async function find(
  { resources }: Pick<Deps, 'resources'>,
  nameOrId: string,
  signal: AbortSignal,
): Promise<CertificateResource | undefined> {
  return ifFound(resources.lookup(certificateType, nameOrId.toLowerCase(), { signal }));
}

/** In the place of what there was for its first name: `replace` says with which status, or throws if it is to stay. */
export async function put(
  deps: Pick<Deps, 'resources'>,
  spec: CertificateResource['spec'],
  { replace, signal }: { replace: (known: CertificateResource) => CertificateResource['status']; signal: AbortSignal },
): Promise<CertificateResource> {
  const { resources } = deps;
  for (let attempt = 1; ; attempt += 1) {
    const known = await find(deps, spec.domains[0] ?? '', signal);
    try {
      if (known === undefined) return await resources.create(certificateType, { id: shortId(), spec }, { signal });
      return await resources.change(certificateType, known.id, (one) => ({ spec, status: replace(one) }), { signal });
    } catch (error) {
      // Somebody else brought one, or took it away, in between.
      const isRace = hasCode(error, 'conflict') || hasCode(error, 'not_found');
      if (!isRace || attempt >= maxAttempts) throw error;
    }
  }
}
