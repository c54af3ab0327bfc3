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
import { outdated } from './outdated.ts';
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
      let unreadable: ReadonlySet<string> = new Set();
      const onUnreadable = (ids: ReadonlySet<string>): void => void (unreadable = ids);
      await using routes = await deps.resources.mirror(routeType, { signal, onUnreadable });
      await using certificates = await deps.resources.mirror(certificateType, { signal });
      await using settings = await deps.resources.mirror(acmeType, { signal });
      const once = () => ['all'];
      await runReconciler({
        name: 'automatic certificates',
        sources: [keysOf(routes, once), keysOf(certificates, once), keysOf(settings, once)],
        concurrency: 1,
        reconcile: (_id, { signal: run }) =>
          nameAll(deps, { routes, isMissingRoutes: unreadable.size > 0, certificates, signal: run, epoch }),
        log,
        signal,
      });
    },
  };
}

/** One look at all names there are. `conflict` if somebody changed meanwhile what is to go: the next look sees it. */
export async function nameAll(
  { resources, settings, now }: Pick<Deps, 'resources' | 'settings' | 'now'>,
  options: {
    routes: Mirror<RouteResource>;
    isMissingRoutes: boolean;
    certificates: Mirror<CertificateResource>;
    signal: AbortSignal;
    epoch: Compare | undefined;
  },
): Promise<void> {
  const { isMissingRoutes, signal, epoch } = options;
  const guard = { signal, ...(epoch === undefined ? {} : { also: () => ({ compare: [epoch] }) }) };
  const acme = await resources.find(acmeType, acmeId, { signal });
  // Switched off, what there is stays and is served until it is over.
  if (acme?.spec.isAutomatic !== true) return;
  const known = valuesOf(options.certificates);
  const routes = new Set(
    valuesOf(options.routes).flatMap(({ spec }) => (spec.domain === undefined ? [] : [spec.domain])),
  );
  const wanted = automaticNames({
    routes,
    covered: known.filter(({ spec }) => !spec.isAutomatic).flatMap(({ spec }) => spec.domains),
    challenge: acme.spec.challenge,
    clusterDomains: [settings.domain, ...settings.formerDomains],
  });
  const there = new Set(known.filter(({ spec }) => spec.isAutomatic).map(({ spec }) => spec.domains[0]));
  for (const domain of wanted) {
    if (there.has(domain)) continue;
    const spec = { source: 'acme' as const, domains: [domain], isAutomatic: true };
    await resources.create(certificateType, { id: shortId(), spec }, guard).catch(ignoreThere);
  }
  for (const { id, revision } of outdated(known, { wanted, routes, isMissingRoutes, nowMs: now() })) {
    // By its revision: somebody may have brought one in its place meanwhile.
    await resources.delete(certificateType, id, { ...guard, expectRevision: revision }).catch(ignoreGone);
  }
}

function ignoreGone(error: unknown): void {
  if (!hasCode(error, 'not_found')) throw error;
}

/** Somebody brought one for that name meanwhile: the mirror will say so, and this is looked at again. */
function ignoreThere(error: unknown): void {
  if (!hasCode(error, 'conflict')) throw error;
}
