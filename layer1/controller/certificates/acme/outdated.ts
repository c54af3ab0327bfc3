/** Which certificates that came by themselves are to go again? Pure. */
import { isAmong } from '../domains.ts';
import type { CertificateResource } from '../resources.ts';
import { shownNames } from '../shown.ts';

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
  const shown = shownNames(staying, nowMs);
  const byWildcard = Map.groupBy(routes, wildcardOver);
  return known.filter((one) => {
    if (!isUnasked(one)) return false;
    if (one.status.issued === undefined) return true;
    if (isMissingRoutes) return false;
    const names = one.spec.domains.flatMap((domain) => [
      ...(routes.has(domain) ? [domain] : []),
      ...(byWildcard.get(domain) ?? []),
    ]);
    return names.every((name) => isAmong(shown, name));
  });
}

function wildcardOver(name: string): string {
  return `*${name.slice(Math.max(0, name.indexOf('.')))}`;
}
