/** Whose is a host name? Who may have a certificate for it, or see the one there is? */
import { FlynnError } from '@flynn/kit/errors';
import type { Principal } from '../access/principal.ts';
import { isAtLeast } from '../access/roles.ts';
import type { Role } from '../access/roles.ts';
import type { Deps } from '../deps.ts';
import { appType, routeType } from '../resources.ts';
import type { RouteResource } from '../resources.ts';

/** Routes by the name they are at. */
export type DomainOwners = Readonly<{
  /**
   * Whether who holds a wildcard may speak for all names below it. Those that will be there are nobody's yet, unless there is a
   * route at the wildcard itself: who is not of its app is refused others below it.
   */
  maySpeakFor(wildcard: string): boolean;
  /** Whether whoever asks holds the role on every app that has a route at one of these names, and there is one at each. */
  holds(domains: readonly string[], role: Role): boolean;
  /** The first of these at which there is a route of an app on which whoever asks does not hold the role. */
  ofOthers(domains: readonly string[], role: Role): string | undefined;
}>;

/** A certificate speaks for all that is at its name: who has one for a name can read what is sent to everybody there. */
export async function domainOwners(
  { resources, settings }: Pick<Deps, 'resources'> & { settings: Pick<Deps['settings'], 'domain' | 'formerDomains'> },
  principal: Principal,
  signal: AbortSignal,
): Promise<DomainOwners> {
  if (principal.isAdmin) return { maySpeakFor: () => true, holds: () => true, ofOthers: () => undefined };
  const [routes, apps] = await Promise.all([
    resources.list(routeType, { signal, where: ({ spec }) => spec.domain !== undefined }),
    resources.list(appType, { signal }),
  ]);
  const levels = new Map(apps.map(({ id, spec }) => [id, principal.levelOn({ id, isSystem: spec.isSystem })] as const));
  const byDomain = Map.groupBy(routes, ({ spec }) => spec.domain ?? '');
  const at = (domain: string) =>
    domain.startsWith('*.')
      ? routes.filter(({ spec }) => isCovered(domain, spec.domain ?? ''))
      : (byDomain.get(domain) ?? []);
  const isHeld = ({ spec }: RouteResource, role: Role) => isAtLeast(levels.get(spec.appId) ?? 'none', role);
  // Apps get names there by themselves, whoever has a route for all of them.
  const ofCluster = new Set([settings.domain, ...settings.formerDomains].map((own) => `*.${own}`));
  return {
    maySpeakFor: (wildcard) => byDomain.has(wildcard) && !ofCluster.has(wildcard),
    holds: (domains, role) =>
      domains.every((domain) => {
        const found = at(domain);
        return found.length > 0 && found.every((route) => isHeld(route, role));
      }),
    ofOthers: (domains, role) => domains.find((domain) => at(domain).some((route) => !isHeld(route, role))),
  };
}

/** Of a certificate that is to be had. Throws `denied`. */
export function checkHolds(owners: DomainOwners, domains: readonly string[], role: Role): void {
  const wildcard = domains.find((domain) => domain.startsWith('*.') && !owners.maySpeakFor(domain));
  if (wildcard !== undefined) {
    throw new FlynnError(
      'denied',
      `${wildcard} speaks for names below it that others may have one day too: name each route, or ask an admin of the cluster`,
    );
  }
  const missing = domains.find((domain) => !owners.holds([domain], role));
  if (missing === undefined) return;
  throw new FlynnError(
    'denied',
    `${missing} has to be a route of apps you are ${role} of, and of no others: add the route first, or ask an admin of the cluster`,
  );
}

/** Of the certificate that is there: in its place one for fewer names takes it away from the others. Throws `denied`. */
export function checkReplaces(owners: DomainOwners, domains: readonly string[], role: Role): void {
  const name = owners.ofOthers(domains, role);
  if (name === undefined) return;
  throw new FlynnError(
    'denied',
    `the certificate that is there is for ${name} too, at which there are apps you are not ${role} of: ask an admin of the cluster`,
  );
}

/** `*.example.com` covers itself and exactly one label in its place. */
export function isCovered(wildcard: string, domain: string): boolean {
  if (!wildcard.startsWith('*.')) return wildcard === domain;
  const dot = domain.indexOf('.');
  return domain === wildcard || (dot > 0 && domain.slice(dot) === wildcard.slice(1));
}

/** Whether one of them covers it, however many they are. */
export function isAmong(names: ReadonlySet<string>, domain: string): boolean {
  const dot = domain.indexOf('.');
  return names.has(domain) || (dot > 0 && names.has(`*${domain.slice(dot)}`));
}
