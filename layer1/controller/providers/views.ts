/** Providers and resources as the API shows them. Pure. */
import { isHeld } from './holding.ts';
import type { Failure, Provider, ResourceApp, ResourceView } from './model.ts';
import { isLinked, providerFinalizer } from './types.ts';
import type { ProvidedResource, ProviderResource } from './types.ts';

export function viewProvider({ id, spec, createdAt }: ProviderResource): Provider {
  return { id, name: spec.name, url: spec.url, hasToken: spec.token !== undefined, createdAt };
}

export function viewResource(resource: ProvidedResource, provider: string): ResourceView {
  const { id, spec, status, createdAt } = resource;
  const waitingFor = waitingOf(resource);
  const failure = failureOf(resource);
  return {
    id,
    provider,
    ...(status.externalId === undefined ? {} : { externalId: status.externalId }),
    config: { ...spec.config },
    variables: Object.keys(status.env).toSorted(),
    state: stateOf(resource),
    ...(waitingFor === undefined ? {} : { waitingFor }),
    ...(failure === undefined ? {} : { failure: { code: failure.code, message: failure.message } }),
    apps: viewApps(resource),
    createdAt,
  };
}

function failureOf(resource: ProvidedResource): Failure | undefined {
  const { status, deletingSince } = resource;
  const isLeaving = deletingSince !== undefined;
  if (isLeaving && isHeld(resource)) return { code: 'conflict', message: `it waits for ${waitingOf(resource) ?? ''}` };
  return status.failure?.isOfRemoval === isLeaving ? status.failure : undefined;
}

export function stateOf({ status, deletingSince }: ProvidedResource): ResourceView['state'] {
  if (deletingSince !== undefined) return 'removing';
  if (status.externalId !== undefined) return 'ready';
  return status.underWay === undefined || status.underWay.isOver === true ? 'pending' : 'provisioning';
}

export function viewApps({ spec, status, deletingSince }: ProvidedResource): ResourceApp[] {
  const wanted = new Set(deletingSince === undefined ? spec.apps.map(({ appId }) => appId) : []);
  const all = [...wanted, ...Object.keys(status.links).filter((appId) => !wanted.has(appId))];
  return all.map((appId) => viewApp(appId, wanted.has(appId), status));
}

function viewApp(appId: string, isWanted: boolean, { links, refused }: ProvidedResource['status']): ResourceApp {
  const { state: _, isStale: _stale, isHeld: _held, ...made } = links[appId] ?? {};
  const failure = refused[appId];
  const isThere = links[appId]?.state === 'added';
  const state = !isWanted ? 'removing' : isLinked(links[appId]) ? 'added' : 'adding';
  // What it was added by is of no more interest while it goes.
  const isOld = state === 'removing' && isThere;
  return { appId, state, ...(isOld ? {} : made), ...(failure === undefined ? {} : { failure }) };
}

export function waitingOf({ waitingFor, conditions, deletingSince }: ProvidedResource): string | undefined {
  if (deletingSince !== undefined) return waitingFor[providerFinalizer];
  const condition = conditions.find(({ type }) => type === 'Ready');
  return condition?.status === 'False' ? condition.message : undefined;
}
