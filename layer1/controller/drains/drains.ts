/** Drains: where the lines of an app, or of all apps, are sent as well. The log aggregator follows them and does the sending. */
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { interleaved } from '@flynn/kit/interleaved';
import type { ServerEvent } from '@flynn/kit/routes';
import { leasePrefix } from '@flynn/host-agent/network/lease';
import { feedRoute, routes as logRoutes } from '@flynn/log-aggregator/api';
import type { DrainStatus } from '@flynn/log-aggregator/api';
import { hideSecrets, parseDrainUrl } from '@flynn/log-aggregator/drain-url';
import { parseCertificate } from '@flynn/kit/certificate';
import { resourcePrefix } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { Entry, Revision } from '@flynn/store/store';
import { drains } from './api.ts';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { isAtLeast } from '../access/roles.ts';
import { countedPiece, findApp, forLiveApp, noApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { isRecent } from '../health/drains.ts';
import { insideNetworks } from '../hosts/inside-networks.ts';
import type { Drain } from '../model.ts';
import { appType, drainType, ownedBy } from '../resources.ts';
import type { AppResource, DrainResource } from '../resources.ts';

const statusTimeoutMs = 3_000;
/** Each takes of what the log aggregator has for all. Those there are stay. */
const maxOfApp = 20;

export function drainHandlers(deps: Deps, logAggregator: HttpClient): Handler[] {
  const { resources, log } = deps;

  /** What it cannot be asked for now is left out. */
  async function statuses(signal: AbortSignal): Promise<ReadonlyMap<string, DrainStatus>> {
    try {
      const all = await logAggregator.call(logRoutes.drains, {}, { signal, timeoutMs: statusTimeoutMs });
      return new Map(all.map((status) => [status.id, status]));
    } catch (error) {
      log.debug({ err: error }, 'the log aggregator does not say how far its drains are');
      return new Map();
    }
  }

  return [
    handle(drains.create, async (call) => {
      const { signal } = call;
      const { app, ...drain } = call.body;
      const principal = principalOf(call);
      if (app === undefined && !principal.isAdmin) {
        throw new FlynnError(
          'denied',
          'only an admin of the cluster sends the lines of all apps elsewhere: name an app',
        );
      }
      const appId = app === undefined ? undefined : (await ownApp(deps, principal, app, signal)).id;
      checkDrain(drain);
      return viewDrain(await addDrain(deps, { ...drain, appId, isOpen: principal.isAdmin }, signal));
    }),
    handle(drains.list, async (call) => {
      const { query, signal } = call;
      const principal = principalOf(call);
      const app = query.app === undefined ? undefined : await ownApp(deps, principal, query.app, signal);
      const [found, known] = await Promise.all([resources.list(drainType, { signal }), statuses(signal)]);
      const ofOthers = await hiddenApps(deps, principal, signal);
      return found
        .filter(({ spec }) => (spec.appId === undefined ? principal.isAdmin : !ofOthers.has(spec.appId)))
        .filter(({ spec }) => app === undefined || spec.appId === undefined || spec.appId === app.id)
        .toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1))
        .map((drain) => viewDrain(drain, { status: known.get(drain.id), now: deps.now() }));
    }),
    handle(drains.remove, async (call) => {
      const { params, signal } = call;
      const principal = principalOf(call);
      const drain = await resources.find(drainType, params.drain, { signal });
      const ofOthers = await hiddenApps(deps, principal, signal);
      const isOwn = principal.isAdmin || (drain?.spec.appId !== undefined && !ofOthers.has(drain.spec.appId));
      if (drain === undefined || !isOwn) {
        throw new FlynnError('not_found', `there is no drain ${params.drain}; list them with: flynn drain`);
      }
      await resources.delete(drainType, drain.id, { signal });
    }),
    handle(feedRoute, async ({ signal }) => logFeed(deps, signal)),
  ];
}

/** Drains are developers' business. What somebody may not see is not there for them. */
async function ownApp(deps: Deps, principal: Principal, name: string, signal: AbortSignal): Promise<AppResource> {
  const app = await findApp(deps, name, signal);
  const one = { id: app.id, isSystem: app.spec.isSystem };
  if (isAtLeast(principal.levelOn(one), 'developer')) return app;
  if (!principal.canSee(one)) throw noApp(name);
  throw new FlynnError('denied', `${principal.name} may only look at ${app.spec.name}: its drains are for developers`);
}

/** The apps whose drains are none of theirs. */
async function hiddenApps(
  { resources }: Deps,
  principal: Principal,
  signal: AbortSignal,
): Promise<ReadonlySet<string>> {
  if (principal.isAdmin) return new Set();
  const apps = await resources.list(appType, { signal });
  const isOwn = ({ id, spec }: AppResource) =>
    isAtLeast(principal.levelOn({ id, isSystem: spec.isSystem }), 'developer');
  const hidden = apps.filter((app) => !isOwn(app));
  return new Set(hidden.map(({ id }) => id));
}

/** Throws `invalid` saying what is wrong with it. */
export function checkDrain({ url, ca }: { url: string; ca?: string | undefined }): void {
  const target = parseDrainUrl(url);
  if (ca !== undefined)
    checkAuthority(ca, target.kind === 'syslog' ? target.isSecure : target.url.startsWith('https:'));
}

/** `isOpen`: it may lead into the cluster's own networks. Checked before, with `checkDrain`. */
export async function addDrain(
  deps: Deps,
  drain: {
    url: string;
    ca?: string | undefined;
    id?: string | undefined;
    appId: string | undefined;
    labels?: Readonly<Record<string, string>> | undefined;
    isOpen: boolean;
  },
  signal: AbortSignal,
): Promise<DrainResource> {
  const { url, ca, id = shortId(), appId, labels = {}, isOpen } = drain;
  const spec = { url, ...(ca === undefined ? {} : { ca }), ...(isOpen ? {} : { isOutside: true }) };
  if (appId === undefined) return deps.resources.create(drainType, { id, labels, spec }, { signal });
  return forLiveApp(deps, appId, signal, async (app) => {
    const own = await deps.resources.list(drainType, { signal, where: (one) => one.spec.appId === app.id });
    if (own.length >= maxOfApp) {
      throw new FlynnError('exhausted', `an app has ${maxOfApp} drains at most: flynn drain remove takes one away`);
    }
    return deps.resources.create(
      drainType,
      { id, labels, owner: ownedBy(app.id), spec: { ...spec, appId: app.id } },
      { signal, also: () => countedPiece(deps, app) },
    );
  });
}

function checkAuthority(pem: string, isSecure: boolean): void {
  if (!isSecure)
    throw new FlynnError('invalid', 'a certificate is of use only where there is TLS: syslog+tls or https');
  try {
    parseCertificate(pem);
  } catch (error) {
    throw new FlynnError('invalid', 'that is no certificate: it begins with -----BEGIN CERTIFICATE-----', {
      cause: error,
    });
  }
}

/** Without its secrets. */
function viewDrain(
  { id, spec, createdAt }: DrainResource,
  seen?: { status: DrainStatus | undefined; now: number },
): Drain {
  return {
    id,
    ...(spec.appId === undefined ? {} : { appId: spec.appId }),
    url: hideSecrets(spec.url),
    createdAt,
    ...(seen?.status === undefined ? {} : { progress: progressOf(seen.status, seen.now) }),
  };
}

function progressOf(
  { sent, failed, skipped, waiting, error, gaveUp, lost, damaged }: DrainStatus,
  now: number,
): NonNullable<Drain['progress']> {
  return {
    sent,
    failed,
    skipped,
    waiting,
    ...(error === undefined ? {} : { error }),
    ...(isRecent(gaveUp, now) ? { gaveUp } : {}),
    ...(isRecent(lost, now) ? { lost } : {}),
    ...(isRecent(damaged, now) ? { damaged } : {}),
  };
}

/** Above the keys of apps and drains. */
const resourcesPrefix = resourcePrefix('app').replace(/app\/$/, '');
const appPrefix = resourcePrefix(appType.name);
const drainPrefix = resourcePrefix(drainType.name);

function eventOf(entry: Entry): ServerEvent | undefined {
  if (entry.key.startsWith(appPrefix)) {
    const { id, spec } = decodeResource(appType, entry);
    return { event: 'app', data: { id, name: spec.name } };
  }
  if (!entry.key.startsWith(drainPrefix)) return undefined;
  const { id, spec, createdAt } = decodeResource(drainType, entry);
  return { event: 'drain', data: { id, ...spec, createdAt } };
}

function removalOf(key: string): ServerEvent | undefined {
  const prefixes = { 'app-removed': appPrefix, 'drain-removed': drainPrefix };
  for (const [event, prefix] of Object.entries(prefixes)) {
    if (key.startsWith(prefix)) return { event, data: { id: key.slice(prefix.length) } };
  }
  return undefined;
}

/** The cluster's networks first, and whenever they change; all apps and drains, `current`, then changes. Not to be resumed. */
async function* logFeed(deps: Pick<Deps, 'store' | 'cell'>, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const { revision } = await deps.store.list(leasePrefix, { signal });
  yield await networksOf(deps, signal);
  yield* interleaved(drainsFeed(deps, signal), networksFeed(deps, revision, signal));
}

async function networksOf(deps: Pick<Deps, 'store' | 'cell'>, signal: AbortSignal): Promise<ServerEvent> {
  return { event: 'networks', data: { inside: await insideNetworks(deps, signal) } };
}

async function* networksFeed(
  deps: Pick<Deps, 'store' | 'cell'>,
  after: Revision,
  signal: AbortSignal,
): AsyncGenerator<ServerEvent> {
  for await (const { changes } of deps.store.watch(leasePrefix, { after, signal })) {
    if (changes.length > 0) yield await networksOf(deps, signal);
  }
}

/** A list has no gaps. */
async function* drainsFeed({ store }: Pick<Deps, 'store'>, signal: AbortSignal): AsyncGenerator<ServerEvent> {
  const apps = await store.list(appPrefix, { signal });
  const all = await store.list(drainPrefix, { signal, revision: apps.revision });
  for (const entry of [...apps.entries, ...all.entries]) {
    const event = eventOf(entry);
    if (event !== undefined) yield event;
  }
  yield { event: 'current', data: {} };
  for await (const { changes } of store.watch(resourcesPrefix, { after: apps.revision, signal })) {
    for (const change of changes) {
      const event = change.type === 'put' ? eventOf(change.entry) : removalOf(change.key);
      if (event !== undefined) yield event;
    }
  }
}
