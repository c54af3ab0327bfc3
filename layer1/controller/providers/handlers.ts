/** What providers gave, as it is asked for and followed. The worker does what is asked for here: see steps.ts. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { mergePieces } from '@flynn/resource/piece';
import { compareOf } from '@flynn/resource/record';
import { principalOf } from '../access/principal.ts';
import type { Principal } from '../access/principal.ts';
import { withOrigin } from '../datastores/origin.ts';
import { findApp, findLiveApp, forLiveApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import { pageOf } from '../paging.ts';
import type { AppResource } from '../resources.ts';
import { resources as routes } from './api.ts';
import { settled } from './following.ts';
import { askedAgain, isHeld } from './holding.ts';
import type { Failure, ResourceApp, ResourceView } from './model.ts';
import { getProvider } from './providers.ts';
import { checkChange, developedApp, isSeen, sightOf } from './sight.ts';
import { applianceOf, isLinked, providerFinalizer, providerType, resourceType } from './types.ts';
import type { ProvidedResource } from './types.ts';
import { viewApps, viewResource } from './views.ts';

const maxAttempts = 8;

export function resourceHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  const show = async (resource: ProvidedResource, signal: AbortSignal): Promise<ResourceView> => {
    const provider = await resources.find(providerType, resource.spec.providerId, { signal });
    return viewResource(resource, provider?.spec.name ?? resource.spec.providerId);
  };
  const list = async (principal: Principal, where: (one: ProvidedResource) => boolean, signal: AbortSignal) => {
    const [found, all] = await Promise.all([
      resources.list(resourceType, { signal, where }),
      resources.list(providerType, { signal }),
    ]);
    const names = new Map(all.map(({ id, spec }) => [id, spec.name]));
    const sight = await sightOf(deps, principal, signal);
    return found
      .filter((one) => isSeen(one, sight))
      .toSorted((a, b) => (a.createdAt < b.createdAt ? -1 : 1))
      .map((one) => viewResource(one, names.get(one.spec.providerId) ?? one.spec.providerId));
  };
  return [
    handle(routes.create, async (call) => {
      const { params, body, signal } = call;
      const principal = principalOf(call);
      if (body.apps.length === 0 && !principal.isAdmin) {
        throw new FlynnError(
          'invalid',
          'say which apps are to have it: only an admin of the cluster makes one for none',
        );
      }
      const provider = await getProvider(deps, params.provider, signal);
      const apps = await Promise.all(body.apps.map((name) => developedApp(deps, principal, name, signal)));
      const appliance = applianceOf(provider);
      const config =
        appliance === undefined ? body.config : await withOrigin(deps, call, { config: body.config, appliance });
      const { id, revision } = await create(deps, provider.id, { ...body, config, apps }, signal);
      const outcome = await settled(deps, { id, revision }, hasItsApps, signal);
      if (outcome === undefined) throw new FlynnError('conflict', `the resource ${id} was removed at the same time`);
      const failure = failureOf(outcome);
      if (failure === undefined) return show(outcome, signal);
      // Nothing half-made stays: what the provider may have made meanwhile it is asked to take back.
      await resources.delete(resourceType, id, { signal });
      throw finalError(failure);
    }),
    handle(routes.ofProvider, async (call) => {
      const { params, query, signal } = call;
      const provider = await getProvider(deps, params.provider, signal);
      const found = await list(principalOf(call), ({ spec }) => spec.providerId === provider.id, signal);
      return pageOf(found, query, ({ id }) => id);
    }),
    handle(routes.list, async (call) =>
      pageOf(await list(principalOf(call), () => true, call.signal), call.query, ({ id }) => id),
    ),
    handle(routes.ofApp, async (call) => {
      const app = await findApp(deps, call.params.app, call.signal);
      const has = ({ spec, status }: ProvidedResource) =>
        spec.apps.some(({ appId }) => appId === app.id) || status.links[app.id] !== undefined;
      return list(principalOf(call), has, call.signal);
    }),
    handle(routes.get, async (call) =>
      show(await find(deps, principalOf(call), call.params.resource, call.signal), call.signal),
    ),
    handle(routes.remove, async (call) => {
      const { params, query, signal } = call;
      const principal = principalOf(call);
      const found = await find(deps, principal, params.resource, signal);
      await checkChange(deps, principal, found, signal);
      if (query.forget) await forget(deps, principal, found, signal);
      await askAgain(deps, found, { isForced: query.force === true }, signal);
      const marked = await resources.delete(resourceType, found.id, { signal, expectUid: found.uid });
      // By which releases its apps gave it back is known only until they have.
      const before = await show(marked, signal);
      const isLeaving = (of: ProvidedResource, { appId, state }: ResourceApp) =>
        state === 'removing' && of.status.links[appId]?.isHeld !== true;
      const wasLeaving = new Set(viewApps(found).flatMap((one) => (isLeaving(found, one) ? [one.appId] : [])));
      const gaveBack = new Map<string, ResourceApp>();
      const isLeft = (now: ProvidedResource): boolean => {
        for (const one of viewApps(now).filter((each) => isLeaving(now, each)))
          if (one.releaseId !== undefined && !wasLeaving.has(one.appId)) gaveBack.set(one.appId, one);
        return waitsForOthers(now);
      };
      const left = await settled(deps, marked, isLeft, signal);
      const view = left === undefined ? before : viewResource(left, before.provider);
      return { ...view, apps: [...gaveBack.values()], isGone: left === undefined };
    }),
    handle(routes.addApp, async (call) => {
      const { params, body, signal } = call;
      const principal = principalOf(call);
      const found = await find(deps, principal, params.resource, signal);
      // Who gives its variables away may read them.
      await checkChange(deps, principal, found, signal, 'some');
      const app = await findLiveApp(deps, params.app, signal);
      const changed = await forLiveApp(deps, app.id, signal, (live) => addApp(deps, found, live, body, signal));
      const outcome = await settled(deps, changed, hasItsApps, signal);
      const failure = outcome?.status.refused[app.id];
      if (failure === undefined) return show(outcome ?? changed, signal);
      await withoutRefused(deps, found, app.id, signal);
      throw finalError(failure);
    }),
    handle(routes.removeApp, async (call) => {
      const { params, signal } = call;
      const found = await find(deps, principalOf(call), params.resource, signal);
      const app = await findApp(deps, params.app, signal);
      if (!hasApp(found, app.id) && found.status.links[app.id]?.isHeld !== true) {
        throw new FlynnError(
          'not_found',
          `${app.spec.name} does not have ${found.id}; flynn resource tells what it has`,
        );
      }
      const changed = await withoutApp(deps, found, app.id, signal);
      // As soon as it is known by which release, if by one.
      const isBegun = ({ status: { links } }: ProvidedResource) =>
        links[app.id]?.state !== 'added' || links[app.id]?.isHeld === true;
      const outcome = await settled(deps, changed, isBegun, signal);
      const failure = outcome?.status.refused[app.id];
      if (failure !== undefined) throw finalError(failure);
      return show(outcome ?? changed, signal);
    }),
  ];
}

/** What somebody may not see is not there for them. */
async function find(deps: Deps, principal: Principal, id: string, signal: AbortSignal): Promise<ProvidedResource> {
  const found = await deps.resources.find(resourceType, id, { signal });
  if (found !== undefined && isSeen(found, await sightOf(deps, principal, signal))) return found;
  throw new FlynnError('not_found', `there is no resource "${id}"; list them with: flynn resource`);
}

/** Written before anybody is asked for anything; its provider and its apps are there, and not about to go, as it is. */
async function create(
  deps: Deps,
  providerId: string,
  asked: { config: ProvidedResource['spec']['config']; apps: readonly AppResource[]; isReplacing: boolean },
  signal: AbortSignal,
): Promise<{ id: string; revision: number }> {
  const { resources } = deps;
  const { config, isReplacing } = asked;
  const ids = [...new Set(asked.apps.map(({ id }) => id))];
  for (let attempt = 1; ; attempt += 1) {
    const apps = await Promise.all(ids.map((id) => findLiveApp(deps, id, signal)));
    const busy = apps.find(({ status }) => status.deploymentId !== undefined);
    if (busy !== undefined) {
      const { deploymentId } = busy.status;
      const message = `a deployment of ${busy.spec.name} is under way: ask again once it is through`;
      throw new FlynnError('conflict', message, { detail: { deploymentId } });
    }
    const { resource, piece } = resources.draft(resourceType, {
      id: shortId(),
      spec: { providerId, config, apps: ids.map((appId) => ({ appId, isReplacing })) },
      finalizers: [providerFinalizer],
    });
    const also = () => mergePieces([piece, { compare: apps.map(compareOf) }]);
    try {
      const count = ({ status }: { status: { asked: number } }) => ({ asked: status.asked + 1 });
      const { revision } = await resources.updateStatus(providerType, providerId, count, { signal, also });
      return { id: resource.id, revision };
    } catch (error) {
      const isOvertaken = hasCode(error, 'conflict') && apps.some((app) => compareOf(app).key === error.detail['key']);
      if (!isOvertaken || attempt >= maxAttempts) throw error;
    }
  }
}

async function addApp(
  { resources }: Deps,
  { id, uid }: ProvidedResource,
  app: AppResource,
  { isReplacing }: { isReplacing: boolean },
  signal: AbortSignal,
): Promise<ProvidedResource> {
  const appId = app.id;
  return resources.change(
    resourceType,
    id,
    ({ spec, status, deletingSince }) => {
      if (deletingSince !== undefined) throw new FlynnError('conflict', `the resource ${id} is being removed`);
      const { [appId]: _, ...refused } = status.refused;
      // Asked for again, it is looked at again: somebody may have unset what it should not replace.
      const { [appId]: link, ...links } = status.links;
      // What it has instead, like a password of before that came back with an older release, is to be replaced. Until then it has
      // something of it all the same, which is taken back when it goes.
      const isAsWanted = link === undefined || (isLinked(link) && !isReplacing);
      const kept = isAsWanted ? status.links : { ...links, [appId]: { state: 'added' as const, isStale: true } };
      const others = spec.apps.filter((one) => one.appId !== appId);
      return {
        spec: { ...spec, apps: [...others, { appId, isReplacing }] },
        status: { ...status, refused, links: kept },
      };
    },
    { signal, expectUid: uid, also: () => ({ compare: [compareOf(app)] }) },
  );
}

/** One that had it keeps what it has: only another one of it was refused. */
async function withoutRefused(deps: Deps, found: ProvidedResource, appId: string, signal: AbortSignal): Promise<void> {
  if (!hasApp(found, appId) || found.status.links[appId]?.state !== 'added') {
    await withoutApp(deps, found, appId, signal);
    return;
  }
  const asBefore = ({ status }: ProvidedResource) => {
    const { [appId]: _, ...refused } = status.refused;
    return { ...status, refused };
  };
  await deps.resources.updateStatus(resourceType, found.id, asBefore, { signal, expectUid: found.uid });
}

function hasApp({ spec }: ProvidedResource, appId: string): boolean {
  return spec.apps.some((one) => one.appId === appId);
}

async function withoutApp(
  { resources }: Deps,
  { id, uid }: ProvidedResource,
  appId: string,
  signal: AbortSignal,
): Promise<ProvidedResource> {
  return resources.change(
    resourceType,
    id,
    ({ spec, status }) => {
      const { [appId]: _, ...refused } = status.refused;
      return {
        spec: { ...spec, apps: spec.apps.filter((one) => one.appId !== appId) },
        status: { ...status, refused, links: askedAgain(status.links, (id) => id === appId) },
      };
    },
    { signal, expectUid: uid },
  );
}

/** Apps that did not give it back when it was asked for before are to do so now; or it goes without that. */
async function askAgain(
  { resources }: Deps,
  { id, uid, status: seen }: ProvidedResource,
  { isForced }: { isForced: boolean },
  signal: AbortSignal,
): Promise<void> {
  if (!isForced && !Object.values(seen.links).some((link) => link.isHeld === true)) return;
  const change = ({ status }: ProvidedResource) =>
    isForced ? { ...status, isForced } : { ...status, links: askedAgain(status.links, () => true) };
  await resources.updateStatus(resourceType, id, change, { signal, expectUid: uid });
}

/** Its provider is asked no more: what that made stays there. */
async function forget(
  { resources }: Deps,
  principal: Principal,
  { id, uid }: ProvidedResource,
  signal: AbortSignal,
): Promise<void> {
  if (!principal.isAdmin) {
    throw new FlynnError(
      'denied',
      `only an admin of the cluster forgets a resource: what its provider made of ${id} stays there, and nobody knows of it any more`,
    );
  }
  const forgotten = ({ status }: ProvidedResource) => ({ ...status, isForgotten: true });
  await resources.updateStatus(resourceType, id, forgotten, { signal, expectUid: uid });
}

function hasItsApps(resource: ProvidedResource): boolean {
  const { spec, status } = resource;
  if (failureOf(resource) !== undefined) return true;
  return (
    status.externalId !== undefined &&
    spec.apps.every(({ appId }) => isLinked(status.links[appId]) || status.refused[appId] !== undefined)
  );
}

function failureOf({ status, spec }: ProvidedResource): Failure | undefined {
  if (status.externalId === undefined) return status.failure;
  return spec.apps.map(({ appId }) => status.refused[appId]).find((failure) => failure !== undefined);
}

/**
 * For its provider, or for people who have something of it live. Until then it is its apps' deployments, which end by themselves;
 * of one that is forgotten nobody is asked.
 */
function waitsForOthers(resource: ProvidedResource): boolean {
  const { status, waitingFor } = resource;
  if (status.isForgotten === true || waitingFor[providerFinalizer] === undefined) return false;
  return isHeld(resource) || (Object.keys(status.links).length === 0 && status.failure?.isOfRemoval === true);
}

/** Told to whoever would ask again by itself: this wish has ended, another one may do better. */
function finalError({ code, message }: Failure): FlynnError {
  const undone = code === 'invalid' || code === 'denied' ? '' : '; nothing was added';
  return new FlynnError(code, `${message}${undone}`, { detail: { isFinal: true } });
}
