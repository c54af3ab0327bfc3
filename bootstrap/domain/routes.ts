/** Routes of a cluster whose domain becomes another, through the controller's API. Each step may be repeated. */
import { certificates } from '@flynn/controller/certificates/api';
import { type GenericObject, generic } from '@flynn/controller/generic/api';
import { zoneOf } from '@flynn/controller/routes/address';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { retry } from '@flynn/kit/retry';
import { isOfAuthority } from '../joining/certificates.ts';
import { domainsOf, hostOf, placeOf, twinOf } from './domain.ts';
import { commands } from '../origin.ts';
import type { Cluster } from '../settings.ts';
import type { Report } from '../steps/timed.ts';

type Client = Pick<HttpClient, 'call'>;

const callMs = 60_000;
/** Of names in one message. */
const shown = 5;

const routeKind = { group: 'flynn', version: 'v1', kind: 'Route' } as const;

/** Gives every app at the cluster's domain what it has at former ones. With a word on what was found. */
export async function addTwins(client: Client, cluster: Cluster, report: Report): Promise<string> {
  const all = await routesOf(client);
  const owners = new Map(all.map(({ spec, owner }) => [placeOf(spec), owner]));
  const taken: string[] = [];
  let added = 0;
  for (const { spec, owner, labels } of all) {
    const twin = twinOf(spec, cluster);
    if (twin === undefined || owner === undefined) continue;
    const there = owners.get(placeOf(twin));
    if (there !== undefined && there !== owner) taken.push(`${hostOf(twin)} is ${there}'s`);
    if (there !== undefined) continue;
    const body = { owner, labels, spec: twin };
    try {
      await retry(() => client.call(generic.apply, { params: routeKind, body }), {
        what: 'adding a route',
        deadlineMs: callMs,
        maxMs: 1_000,
        isRetryable: (error) => hasCode(error, 'unavailable', 'timeout', 'exhausted') || isOvertakenWrite(error),
      });
    } catch (error) {
      // The web page shares its host name with nobody, on no path of it.
      if (!hasCode(error, 'conflict')) throw error;
      taken.push(`${hostOf(twin)} is not to be had for ${owner} (${messageOf(error)})`);
      continue;
    }
    owners.set(placeOf(twin), owner);
    added += 1;
    if (added % 100 === 0) report(`${added} routes added`);
  }
  for (const line of taken) report(`${line}, and was left alone`);
  return `${added} ${added === 1 ? 'route' : 'routes'} added at ${cluster.domain}`;
}

/**
 * Takes away the routes at a former domain, and the platform's own certificates for it. `conflict`, and nothing is changed,
 * where one of them is at no other domain.
 */
export async function dropRoutes(client: Client, cluster: Cluster, former: string): Promise<string> {
  const all = await routesOf(client);
  const ofFormer = all.filter(({ spec }) => zoneOf(hostOf(spec) ?? '', domainsOf(cluster)) === former);
  const places = new Set(all.map(({ spec, owner }) => `${owner} ${placeOf(spec)}`));
  const alone = ofFormer.filter(({ spec, owner }) => {
    const twin = twinOf(spec, cluster);
    return twin !== undefined && !places.has(`${owner} ${placeOf(twin)}`);
  });
  if (alone.length > 0) {
    const names = alone.slice(0, shown).map(({ spec, owner }) => `${hostOf(spec)} (${owner})`);
    const more = alone.length > shown ? ` and ${alone.length - shown} more` : '';
    throw new FlynnError(
      'conflict',
      `${names.join(', ')}${more} would answer nowhere any more: ${commands.domain} ${cluster.domain} adds what is missing there, flynn route remove takes away what is not wanted. Nothing was changed`,
    );
  }
  for (const { metadata } of ofFormer) {
    const params = { ...routeKind, name: metadata.id };
    await unlessGone(called('removing a route', () => client.call(generic.remove, { params })));
  }
  const own = await called('reading the certificates', () => client.call(certificates.list, {}));
  for (const { id, source, issuer, domains } of own) {
    const isOwn = domains.length === 1 && [`controller.${former}`, `dashboard.${former}`].includes(domains[0] ?? '');
    if (!isOwn || !isOfAuthority({ source, issuer }, cluster)) continue;
    const params = { certificate: id };
    await unlessGone(called('removing a certificate', () => client.call(certificates.remove, { params })));
  }
  return `${ofFormer.length} ${ofFormer.length === 1 ? 'route' : 'routes'} removed`;
}

function routesOf(client: Client): Promise<GenericObject[]> {
  return called('reading the routes', () => client.call(generic.list, { params: routeKind }));
}

/** The app was written at the same moment, and again each time that the controller tried: the place may be free all the same. */
function isOvertakenWrite(error: unknown): boolean {
  return hasCode(error, 'conflict') && error.detail['key'] !== undefined;
}

function called<T>(what: string, call: () => Promise<T>): Promise<T> {
  return retry(call, { what, deadlineMs: callMs, maxMs: 1_000 });
}

/** What is gone is done: the answer to an earlier attempt was lost, or somebody was faster. */
async function unlessGone(removal: Promise<unknown>): Promise<void> {
  try {
    await removal;
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
  }
}
