/** In one worker: certificates are asked for as they are due, and for routes as they come and go. */
import { hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import type { Controller } from '@flynn/resource/controller';
import { keysOf, runReconciler } from '@flynn/resource/reconciler';
import type { Source } from '@flynn/resource/reconciler';
import type { Mirror } from '@flynn/store/mirror';
import type { Compare } from '@flynn/store/store';
import { valuesOf } from '../../mirrors/cell-view.ts';
import type { Deps } from '../../deps.ts';
import type { ControllerContext } from '../../generic/kind.ts';
import { routeType } from '../../resources.ts';
import type { RouteResource } from '../../resources.ts';
import { certificateType } from '../resources.ts';
import type { CertificateResource } from '../resources.ts';
import { automaticNames } from './names.ts';
import { acmeId, acmeType } from './resources.ts';
import { stepCertificate } from './steps.ts';

/** An order waits for the authority, for DNS, for other people's servers. */
const orderMs = 10 * 60_000;

export function issuing({ deps, log }: ControllerContext): Controller {
  return {
    name: 'certificates',
    placement: 'singleton',
    async run({ signal, epoch }) {
      await using certificates = await deps.resources.mirror(certificateType, { signal });
      await using settings = await deps.resources.mirror(acmeType, { signal });
      const guard = epoch === undefined ? {} : { epoch };
      const all = keysOf(certificates);
      const bySettings: Source = {
        all: () => [],
        subscribe: (add) => settings.onChange(() => [...certificates.snapshot.entries.keys()].forEach(add)),
      };
      await runReconciler({
        name: 'certificates',
        sources: [all, bySettings],
        deadlineMs: orderMs,
        reconcile: (id, { signal: run }) => stepCertificate(deps, id, { signal: run, ...guard }),
        log,
        signal,
      });
    },
  };
}

export function naming({ deps, log }: ControllerContext): Controller {
  return {
    name: 'automatic certificates',
    placement: 'singleton',
    async run({ signal, epoch }) {
      await using routes = await deps.resources.mirror(routeType, { signal });
      await using certificates = await deps.resources.mirror(certificateType, { signal });
      await using settings = await deps.resources.mirror(acmeType, { signal });
      const once = () => ['all'];
      await runReconciler({
        name: 'automatic certificates',
        sources: [keysOf(routes, once), keysOf(certificates, once), keysOf(settings, once)],
        concurrency: 1,
        reconcile: (_id, { signal: run }) => nameAll(deps, { routes, certificates, signal: run, epoch }),
        log,
        signal,
      });
    },
  };
}

async function nameAll(
  { resources, settings }: Pick<Deps, 'resources' | 'settings'>,
  options: {
    routes: Mirror<RouteResource>;
    certificates: Mirror<CertificateResource>;
    signal: AbortSignal;
    epoch: Compare | undefined;
  },
): Promise<void> {
  const { signal, epoch } = options;
  const guard = { signal, ...(epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) }) };
  const acme = await resources.find(acmeType, acmeId, { signal });
  // Switched off, what there is stays and is served until it is over.
  if (acme === undefined) return;
  const known = valuesOf(options.certificates);
  const covered = known.filter(({ spec }) => !spec.isAutomatic).flatMap(({ spec }) => spec.domains);
  const wanted = acme.spec.isAutomatic
    ? automaticNames({
        routes: valuesOf(options.routes).flatMap(({ spec }) => (spec.domain === undefined ? [] : [spec.domain])),
        covered,
        challenge: acme.spec.challenge,
        clusterDomains: [settings.domain, ...settings.formerDomains],
      })
    : new Set<string>();
  for (const { id, spec } of known) {
    const [name = ''] = spec.domains;
    if (!spec.isAutomatic || wanted.delete(name) || !acme.spec.isAutomatic) continue;
    await resources.delete(certificateType, id, guard).catch(ignoreGone);
  }
  for (const domain of wanted) {
    const spec = { source: 'acme' as const, domains: [domain], isAutomatic: true };
    await resources.create(certificateType, { id: shortId(), spec }, guard).catch(ignoreThere);
  }
}

function ignoreGone(error: unknown): void {
  if (!hasCode(error, 'not_found')) throw error;
}

/** Somebody brought one for that name meanwhile: the mirror will say so, and this is looked at again. */
function ignoreThere(error: unknown): void {
  if (!hasCode(error, 'conflict')) throw error;
}
