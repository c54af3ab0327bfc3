/**
 * The cluster's domain becomes another: apps, the controller and git answer at the new one and at the former, until that is
 * dropped. Pure. Which domains there are is in cluster.json, and so is a move that is not through: the next `up` goes on with it.
 */
import { zoneOf } from '@flynn/controller/routes/address';
import { FlynnError } from '@flynn/kit/errors';
import { commands } from '../origin.ts';
import { type Cluster, domainSchema } from '../settings.ts';

/** Another domain, or a former one that is to be none any more. */
export type DomainChange = Readonly<{ to: string } | { drop: string }>;

/** Of the options `--domain` and `--drop-domain`. */
export function changeOf(options: {
  domain?: string | undefined;
  dropDomain?: string | undefined;
}): DomainChange | undefined {
  const { domain, dropDomain } = options;
  if (domain !== undefined) return { to: domain };
  return dropDomain === undefined ? undefined : { drop: dropDomain };
}

type Domains = Pick<Cluster, 'domain' | 'domains'>;

/** As controllers are told it: of a cluster whose own file is not there. */
export function formerDomainsIn({ FLYNN_FORMER_DOMAINS: text = '' }: Readonly<Record<string, string>>): {
  domains?: NonNullable<Cluster['domains']>;
} {
  const former = text.split(',').filter((one) => one !== '');
  return former.length === 0 ? {} : { domains: { former, isMoving: false } };
}

/** Newest first. */
export function formerDomainsOf({ domains }: Domains): readonly string[] {
  return domains?.former ?? [];
}

/** Its own, then the former ones. */
export function domainsOf(cluster: Domains): readonly [string, ...string[]] {
  return [cluster.domain, ...formerDomainsOf(cluster)];
}

/** With the move begun. To where it is already: what the former domains have and this one lacks is added again. */
export function withDomain(cluster: Cluster, to: string): Cluster {
  if (!domainSchema.safeParse(to).success) {
    throw new FlynnError('invalid', `"${to}" is no domain: give one like apps.example.com, in small letters`);
  }
  const former = domainsOf(cluster).filter((domain) => domain !== to);
  if (former.length === 0) throw new FlynnError('conflict', `${to} is the cluster's domain. Nothing was changed`);
  return { ...cluster, domain: to, domains: { former: [...former], isMoving: true } };
}

/** Once all routes are at the new domain, too. */
export function moved(cluster: Cluster): Cluster {
  const { domains } = cluster;
  return domains === undefined ? cluster : { ...cluster, domains: { ...domains, isMoving: false } };
}

/** `conflict` for one that is none of the former ones, or still needed. */
export function checkDrop(cluster: Domains, domain: string): void {
  const former = formerDomainsOf(cluster);
  if (cluster.domain === domain) {
    const remedy = `move it to another first, by ${commands.domain} DOMAIN`;
    throw new FlynnError('conflict', `${domain} is the cluster's domain: ${remedy}. Nothing was changed`);
  }
  if (!former.includes(domain)) {
    const there = former.length === 0 ? 'it never had another' : `former ones are ${former.join(', ')}`;
    throw new FlynnError('conflict', `${domain} is no former domain of the cluster, ${there}. Nothing was changed`);
  }
  if (cluster.domains?.isMoving !== true) return;
  const how = `${commands.up} goes on with it`;
  throw new FlynnError('conflict', `the move to ${cluster.domain} is not through: ${how}. Nothing was changed`);
}

export function withoutFormer(cluster: Cluster, domain: string): Cluster {
  const { domains, ...rest } = cluster;
  const former = formerDomainsOf(cluster).filter((one) => one !== domain);
  return former.length === 0 ? rest : { ...rest, domains: { former, isMoving: domains?.isMoving ?? false } };
}

/** Of a route, as files have it. */
export type RouteSpec = Readonly<Record<string, unknown>>;

/** The host name that the route answers for; nothing of one that has a whole port. */
export function hostOf({ domain, tcp }: RouteSpec): string | undefined {
  if (typeof domain === 'string') return domain;
  return typeof tcp === 'object' && tcp !== null && 'serverName' in tcp && typeof tcp.serverName === 'string'
    ? tcp.serverName
    : undefined;
}

/** Two at the same place cannot be. */
export function placeOf(spec: RouteSpec): string {
  const { path, port } = spec;
  return JSON.stringify([hostOf(spec) ?? null, port ?? null, port === undefined ? (path ?? '/') : null]);
}

/** The same route at the cluster's domain; nothing of one that is at no former domain. */
export function twinOf(spec: RouteSpec, cluster: Domains): RouteSpec | undefined {
  const host = hostOf(spec);
  if (host === undefined || !formerDomainsOf(cluster).includes(zoneOf(host, domainsOf(cluster)) ?? ''))
    return undefined;
  const { domain, http, tcp } = spec;
  return {
    ...spec,
    ...(typeof domain === 'string' ? { domain: renamed(domain, cluster) } : {}),
    ...withRenamed('http', http, 'canonicalHost', cluster),
    ...withRenamed('tcp', tcp, 'serverName', cluster),
  };
}

function renamed(name: string, cluster: Domains): string {
  const zone = zoneOf(name, domainsOf(cluster));
  return zone === undefined ? name : `${name.slice(0, name.length - zone.length)}${cluster.domain}`;
}

function withRenamed(type: string, settings: unknown, field: string, cluster: Domains): RouteSpec {
  if (typeof settings !== 'object' || settings === null) return {};
  const name: unknown = Reflect.get(settings, field);
  return typeof name === 'string' ? { [type]: { ...settings, [field]: renamed(name, cluster) } } : {};
}
