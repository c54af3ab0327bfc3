/**
 * What is next for a resource: it is asked for at its provider, its apps get its variables, and before it goes they give them
 * back. Only from here is a provider asked, by one worker at a time.
 *
 * INVARIANTS. Before a provider is asked the record says that it is, and under which key: whoever dies in between is followed
 * by one who asks with the same key. A record goes only when its provider has said that nothing is there, or an admin
 * has said that this provider is gone for good.
 */
import type { Appliance } from '@flynn/appliances/appliance';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import { keepCurrent, removeDatastore } from '../datastores/provision.ts';
import type { Deps } from '../deps.ts';
import { heldLookMs, whatHolds } from './holding.ts';
import { addTo, takeFrom } from './links.ts';
import type { Linked, Renewal } from './links.ts';
import type { Provisioned } from './model.ts';
import { obtain } from './obtaining.ts';
import { deprovision, isLater, isRefused, provision } from './protocol.ts';
import type { Later } from './protocol.ts';
import { renewalOf, stepRotation } from './rotation.ts';
import { guarded, lookAgainMs, nextFailure, notReady, providerOf, ready, waitMsOf, write } from './step-record.ts';
import type { StepOptions } from './step-record.ts';
import { applianceOf, isLinked, providerFinalizer, providerType, resourceType } from './types.ts';
import type { ProvidedResource, ProviderResource } from './types.ts';
import { goingOn } from './under-way.ts';

const upkeepMs = 15_000;

export async function stepResource(deps: Deps, id: string, options: StepOptions): Promise<void | Again> {
  const resource = await deps.resources.find(resourceType, id, options);
  if (resource === undefined) return undefined;
  if (resource.deletingSince !== undefined) return remove(deps, resource, options);
  if (resource.status.externalId === undefined) return obtain(deps, resource, options);
  return link(deps, resource, options);
}

/** Its apps get its variables, and those that are to have it no longer give them back. */
async function link(deps: Deps, resource: ProvidedResource, options: StepOptions): Promise<void | Again> {
  const { spec, status } = resource;
  const appliance = await applianceFor(deps, resource, options);
  const isOld = appliance !== undefined && (await isOfOldImage(deps, appliance, resource, options));
  const renew = renewalOf(appliance, status);
  const waiting: Extract<Linked, { is: 'wait' }>[] = [];
  for (const app of spec.apps) {
    if (isLinked(status.links[app.appId]) || status.refused[app.appId] !== undefined) continue;
    const linked = await options.turns.run(app.appId, () =>
      addTo(deps, resource, app, { renew, signal: options.signal }),
    );
    if (linked.is === 'wait') waiting.push(linked);
    else await keep(deps, resource.id, app.appId, linked, options);
  }
  const wanted = new Set(spec.apps.map(({ appId }) => appId));
  waiting.push(...(await unlink(deps, resource, { isLeft: (appId) => !wanted.has(appId), renew }, options)));
  if (appliance !== undefined) {
    const rotating = await stepRotation(
      deps,
      { resource, appliance },
      {
        signal: options.signal,
        isOfOldImage: isOld,
        write: (change) => write(deps, resource.id, options, (now) => ({ status: change(now.status) })),
        inTurn: (appId, work) => options.turns.run(appId, work),
      },
    );
    if (rotating !== undefined) waiting.push(rotating);
  }
  const [first] = waiting.toSorted(soonestFirst);
  const isReady = first === undefined && Object.keys(status.refused).length === 0;
  const message = first?.what ?? Object.values(status.refused)[0]?.message ?? '';
  await write(deps, resource.id, options, () => ({
    conditions: [isReady ? ready : notReady(first === undefined ? 'Refused' : 'Deploying', message)],
  }));
  return first?.again ?? (isOld ? { againInMs: upkeepMs } : undefined);
}

/** Whose datastore it is; undefined of what others provide. */
async function applianceFor(
  { resources }: Deps,
  { spec }: ProvidedResource,
  { signal }: StepOptions,
): Promise<Appliance | undefined> {
  const provider = await resources.find(providerType, spec.providerId, { signal });
  return provider === undefined ? undefined : applianceOf(provider);
}

/** Whether what runs is still to be replaced by what this version has; it goes on by itself, and may take long. */
async function isOfOldImage(
  deps: Deps,
  appliance: Appliance,
  { status }: ProvidedResource,
  { signal }: StepOptions,
): Promise<boolean> {
  if (status.externalId === undefined) return false;
  try {
    return await keepCurrent(deps, appliance, status.externalId, signal);
  } catch (error) {
    if (!hasCode(error, 'conflict', 'unavailable')) throw error;
    deps.log.warn({ err: error, appId: status.externalId }, 'a datastore does not go over to another image yet');
    return true;
  }
}

async function unlink(
  deps: Deps,
  resource: ProvidedResource,
  { isLeft, renew }: { isLeft: (appId: string) => boolean; renew: Renewal },
  options: StepOptions,
): Promise<Extract<Linked, { is: 'wait' }>[]> {
  const waiting: Extract<Linked, { is: 'wait' }>[] = [];
  for (const [appId, known] of Object.entries(resource.status.links)) {
    if (!isLeft(appId)) continue;
    const linked = await options.turns.run(appId, () =>
      takeFrom(deps, resource, { appId, link: known }, { renew, signal: options.signal }),
    );
    if (linked.is === 'wait') waiting.push(linked);
    else if (linked.is !== 'held' || known.isHeld !== true) await keep(deps, resource.id, appId, linked, options);
    if (linked.is !== 'held') continue;
    const what = whatHolds(resource, linked.failure ?? resource.status.refused[appId]);
    waiting.push({ is: 'wait', what, again: { againInMs: heldLookMs } });
  }
  return waiting.toSorted(soonestFirst);
}

/** What gets on by itself before what people have to do something about. */
function soonestFirst(a: Extract<Linked, { is: 'wait' }>, b: Extract<Linked, { is: 'wait' }>): number {
  return a.again.againInMs - b.again.againInMs;
}

/** Puts down what became of an app. */
async function keep(
  deps: Deps,
  id: string,
  appId: string,
  linked: Exclude<Linked, { is: 'wait' }>,
  options: StepOptions,
): Promise<void> {
  await write(deps, id, options, ({ spec, status, deletingSince }) => {
    const links = without(status.links, appId);
    const refused = without(status.refused, appId);
    const bare = { ...status, links, refused };
    if (linked.is === 'linked') return { status: { ...bare, links: { ...links, [appId]: linked.link } } };
    if (linked.is === 'refused') {
      // What it had before it has still.
      const before = status.links[appId];
      const had = before === undefined ? links : { ...links, [appId]: { ...before, isStale: false } };
      return { status: { ...bare, links: had, refused: { ...refused, [appId]: linked.failure } } };
    }
    if (linked.is === 'held') {
      const { failure } = linked;
      const before = status.links[appId];
      const held = before === undefined ? links : { ...links, [appId]: { ...before, isHeld: true } };
      const failed = failure === undefined ? refused : { ...refused, [appId]: failure };
      const waitingFor = { [providerFinalizer]: whatHolds({ id, deletingSince }, failure) };
      const after = { ...bare, links: held, refused: failed };
      // At once: who waits for its end is told then.
      return { status: after, ...(deletingSince === undefined ? {} : { waitingFor }) };
    }
    if (linked.is === 'unlinked') return { status: bare };
    return { spec: { ...spec, apps: spec.apps.filter((one) => one.appId !== appId) }, status: bare };
  });
}

async function remove(deps: Deps, resource: ProvidedResource, options: StepOptions): Promise<void | Again> {
  const renew = renewalOf(await applianceFor(deps, resource, options), resource.status);
  const [first] = await unlink(deps, resource, { isLeft: () => true, renew }, options);
  if (first !== undefined) {
    await tellWaiting(deps, resource.id, first.what, options);
    return first.again;
  }
  // Those that have just been asked to give back are looked at again, by the change of the record.
  const now = await deps.resources.find(resourceType, resource.id, options);
  if (now === undefined || Object.keys(now.status.links).length > 0) return undefined;
  if (now.status.isForgotten) return letGo(deps, now, options);
  const waitMs = waitMsOf(deps, now);
  if (waitMs > 0) return { againInMs: waitMs };
  try {
    const left = await giveBack(deps, now, options);
    if (typeof left === 'string') {
      await tellWaiting(deps, resource.id, left, options);
      return { againInMs: lookAgainMs };
    }
    if (left !== undefined) {
      const underWay = goingOn(now.status.underWay, left, { isOfRemoval: true, nowMs: deps.now() });
      await write(deps, now.id, options, ({ status }) => ({
        status: { ...status, failure: undefined, underWay },
        waitingFor: { [providerFinalizer]: 'its provider, which has begun to take it back' },
      }));
      return { againInMs: underWay.nextMs - deps.now() };
    }
  } catch (error) {
    options.signal.throwIfAborted();
    const failure = nextFailure(deps, now, error);
    await write(deps, now.id, options, ({ status }) => ({
      status: { ...status, failure },
      waitingFor: { [providerFinalizer]: `its provider to take it back: ${failure.message}` },
    }));
    return { againInMs: failure.nextMs - deps.now() };
  }
  return letGo(deps, now, options);
}

async function letGo({ resources }: Deps, { id }: ProvidedResource, options: StepOptions): Promise<void> {
  await resources.removeFinalizer(resourceType, id, providerFinalizer, guarded(options));
}

/** What it waits for, if it takes its time, or when to ask its provider again. */
async function giveBack(
  deps: Deps,
  resource: ProvidedResource,
  options: StepOptions,
): Promise<string | Later | undefined> {
  const { externalId, isAsked } = resource.status;
  const known = await deps.resources.find(providerType, resource.spec.providerId, options);
  // Of what is made here it is seen whether there is anything.
  if (known !== undefined && applianceOf(known) !== undefined) return removeDatastore(deps, resource.id, options);
  if (externalId === undefined && !isAsked) return undefined;
  const provider = await providerOf(deps, resource, options);
  if (externalId !== undefined) return deprovision(provider.spec, externalId, options);
  const given = await whatCameOf(provider, resource, options);
  if (given === undefined || isLater(given)) return given;
  // Taken back by its name from here on: once it is gone the same wish would make another.
  await write(deps, resource.id, options, ({ status }) => ({ status: { ...status, externalId: given.id } }));
  return deprovision(provider.spec, given.id, options);
}

/** It was asked for, and what came of that was never heard: the same wish tells what there is to take back. */
async function whatCameOf(
  provider: ProviderResource,
  { id, uid, spec: { config }, status: { underWay } }: ProvidedResource,
  options: StepOptions,
): Promise<Provisioned | Later | undefined> {
  try {
    return await provision(provider.spec, { config, key: uid }, options);
  } catch (error) {
    if (!(error instanceof FlynnError) || error.code !== 'invalid') throw error;
    // It knew of it, and what it had begun came to nothing.
    if (underWay !== undefined && isRefused(error)) return undefined;
    // What it refuses now it may have made before.
    const remedy = `look whether it made something for the key ${uid}; an admin has it forgotten: flynn resource remove ${id} --forget`;
    throw new FlynnError('invalid', `${error.message}: ${remedy}`, { cause: error });
  }
}

async function tellWaiting(deps: Deps, id: string, what: string, options: StepOptions): Promise<void> {
  await write(deps, id, options, () => ({ waitingFor: { [providerFinalizer]: what } }));
}

function without<T>(of: Readonly<Record<string, T>>, name: string): Record<string, T> {
  return Object.fromEntries(Object.entries(of).filter(([one]) => one !== name));
}
