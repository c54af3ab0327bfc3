/** Asks a provider for a resource until it has been given, or refused. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import { makeDatastore } from '../datastores/provision.ts';
import type { Deps } from '../deps.ts';
import type { Provisioned } from './model.ts';
import { isLater, isRefused, isUnsent, provision } from './protocol.ts';
import type { Later } from './protocol.ts';
import { lookAgainMs, nextFailure, notReady, providerOf, waitMsOf, write } from './step-record.ts';
import type { Status, StepOptions } from './step-record.ts';
import { applianceOf } from './types.ts';
import type { ProvidedResource, ProviderResource } from './types.ts';
import { goingOn, mostMs } from './under-way.ts';

export async function obtain(deps: Deps, resource: ProvidedResource, options: StepOptions): Promise<void | Again> {
  if (resource.status.underWay?.isOver === true) return undefined;
  const waitMs = waitMsOf(deps, resource);
  if (waitMs > 0) return { againInMs: waitMs };
  try {
    const provider = await providerOf(deps, resource, options);
    const given = await askFor(deps, provider, resource, options);
    if (isLater(given)) return await waitForIt(deps, { resource, provider, later: given }, options);
    if ('waitsFor' in given) {
      await write(deps, resource.id, options, () => ({ conditions: [notReady('Making', given.waitsFor)] }));
      return { againInMs: lookAgainMs };
    }
    const { id, env, services } = given;
    await write(deps, resource.id, options, ({ status }) => ({
      status: {
        ...status,
        failure: undefined,
        underWay: undefined,
        isAsked: true,
        externalId: id,
        env,
        ...(services === undefined ? {} : { services }),
      },
    }));
    return undefined;
  } catch (error) {
    options.signal.throwIfAborted();
    const failure = nextFailure(deps, resource, error);
    const { underWay } = resource.status;
    if (underWay !== undefined && isRefused(error)) {
      // It had said that it knows of it: nothing is left of what it refuses now.
      await giveUp(deps, resource, { ...failure, underWay, isAsked: false }, options);
      return undefined;
    }
    await write(deps, resource.id, options, ({ status }) => ({
      status: { ...status, isAsked: mayBeThere(resource, error), failure },
      conditions: [notReady('Provider', failure.message)],
    }));
    return { againInMs: failure.nextMs - deps.now() };
  }
}

/** Its provider has begun, and is asked again; up to half an hour. */
async function waitForIt(
  deps: Deps,
  { resource, provider, later }: { resource: ProvidedResource; provider: ProviderResource; later: Later },
  options: StepOptions,
): Promise<void | Again> {
  const underWay = goingOn(resource.status.underWay, later, { isOfRemoval: false, nowMs: deps.now() });
  const { name } = provider.spec;
  if (underWay.isOver === true) {
    const late = `the provider ${name} was not through with it after ${mostMs / 60_000} min, and is asked no more`;
    const failure = nextFailure(deps, resource, new FlynnError('unavailable', late));
    await giveUp(deps, resource, { ...failure, underWay, isAsked: true }, options);
    return undefined;
  }
  await write(deps, resource.id, options, ({ status }) => ({
    status: { ...status, failure: undefined, underWay },
    conditions: [notReady('Provisioning', `the provider ${name} has begun to make it`)],
  }));
  return { againInMs: underWay.nextMs - deps.now() };
}

/** It is asked for no more; whoever wanted it removes it, and may ask for another. */
async function giveUp(
  deps: Deps,
  { id }: ProvidedResource,
  {
    underWay,
    isAsked,
    ...failure
  }: NonNullable<Status['failure']> & { underWay: NonNullable<Status['underWay']>; isAsked: boolean },
  options: StepOptions,
): Promise<void> {
  await write(deps, id, options, ({ status }) => ({
    status: { ...status, isAsked, failure, underWay: { ...underWay, isOver: true } },
    conditions: [notReady('Provider', failure.message)],
  }));
}

/** What a provider gave; of a datastore of the platform's own the names it is served under, too. */
type Obtained = Provisioned & Readonly<{ services?: string[] }>;

/** The record says so before. `waitsFor`: it is being made. */
async function askFor(
  deps: Deps,
  provider: ProviderResource,
  { id, uid, spec, status }: ProvidedResource,
  options: StepOptions,
): Promise<Obtained | Later | Readonly<{ waitsFor: string }>> {
  if (!status.isAsked) {
    await write(deps, id, options, (current) => ({ status: { ...current.status, isAsked: true } }));
  }
  const appliance = applianceOf(provider);
  if (appliance === undefined) return provision(provider.spec, { config: spec.config, key: uid }, options);
  const { config, apps } = spec;
  const made = await makeDatastore(
    deps,
    appliance,
    { id, config, apps, failures: status.failure?.count ?? 0 },
    options,
  );
  return made.is === 'pending' ? { waitsFor: made.what } : made;
}

/** Whether the provider may have made something, given how asking it failed this time. */
function mayBeThere({ status }: ProvidedResource, error: unknown): boolean {
  // Of one that was asked before it is not known what came of that, whatever is answered now.
  return status.isAsked || !(isUnsent(error) || hasCode(error, 'invalid', 'denied'));
}
