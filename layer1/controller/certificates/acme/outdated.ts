/** Which certificates that came by themselves are to go again? Pure. */
import { isCovered } from '../domains.ts';
import type { CertificateResource } from '../resources.ts';
import { isShownFor } from '../shown.ts';

/**
 * Of those that are not wanted any more: what was never issued, whatever has no route left, and what others are shown in the place
 * of. Until these are there the old one is served, and renewed when it is time: it is the only one there is.
 */
export function outdated(
  known: readonly CertificateResource[],
  options: {
    /** Names that one is to be there for by itself. */
    wanted: ReadonlySet<string>;
    /** Names of routes. */
    routes: ReadonlySet<string>;
    /** Whether there are routes whose names are not known. */
    isMissingRoutes: boolean;
    nowMs: number;
  },
): CertificateResource[] {
  const { wanted, routes, isMissingRoutes, nowMs } = options;
  const isUnasked = ({ spec }: CertificateResource): boolean => spec.isAutomatic && !wanted.has(spec.domains[0] ?? '');
  // Two that go never stand in for each other.
  const staying = known.filter((one) => !isUnasked(one));
  return known.filter((one) => {
    if (!isUnasked(one)) return false;
    if (one.status.issued === undefined) return true;
    if (isMissingRoutes) return false;
    return routesOf(one, routes).every((name) => isShownFor(name, staying, nowMs));
  });
}

function routesOf({ spec }: CertificateResource, routes: ReadonlySet<string>): string[] {
  return spec.domains.flatMap((domain) => {
    if (!domain.startsWith('*.')) return routes.has(domain) ? [domain] : [];
    return [...routes].filter((name) => isCovered(domain, name));
  });
}
