/**
 * What is next for the password of a datastore, made anew while everything runs on: wanted → making → giving → done. The datastore
 * takes the next login beside the former one; each of its apps gets a release with the next; once nobody has the former one the
 * datastore takes it no more.
 *
 * INVARIANTS. A password is in the record before the datastore hears of it, and no app has it before the datastore takes it: who
 * dies in between is followed by one who does the same again. The former one is good while any app's live release has it, or one
 * that is being deployed. The next one goes to apps that have the resource: others that know the former one may be why it goes.
 */
import { isDeepStrictEqual } from 'node:util';
import type { Appliance } from '@flynn/appliances/appliance';
import { messageOf } from '@flynn/kit/errors';
import { admit, primaryOf } from '../datastores/logins.ts';
import { commandOf } from '../datastores/lookup.ts';
import { nextLogin, variablesOf as variablesFor } from '../datastores/datastore.ts';
import { statusesOfApp } from '../mirrors/cell-view.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import type { Renewal } from './links.ts';
import { holdersOf, lookAt, renewIn, underWay, wait } from './rotated-apps.ts';
import type { Waiting } from './rotated-apps.ts';
import type { ProvidedResource, RotatedApp, Rotation } from './types.ts';
import { renewed } from './variables.ts';
import type { GivenLogin } from './variables.ts';

/** Members that do not take it yet, and apps that somebody has to look at. */
const tryAgainMs = 5_000;

type Status = ProvidedResource['status'];
type Giving = Extract<Rotation, { state: 'giving' }>;

/** A datastore with the resource that it is. */
export type Kept = Readonly<{ resource: ProvidedResource; appliance: Appliance }>;

export type RotationOptions = Readonly<{
  signal: AbortSignal;
  /** What runs is of another image than this version's: it may not know how. */
  isOfOldImage: boolean;
  /** Makes what was decided of the status as it is now. */
  write: (change: (status: Status) => Status) => Promise<void>;
  /** One at a time for each app. */
  inTurn: <T>(appId: string, work: () => Promise<T>) => Promise<T>;
}>;

/** While apps have either: those that have the former one are taken for having the other. */
export function renewalOf(appliance: Appliance | undefined, { rotation, env }: Status): Renewal {
  if (appliance === undefined || rotation?.state !== 'giving')
    return (variables) => ({ after: variables, isChanged: false });
  const change = { former: givenWith(appliance, rotation.former), next: givenWith(appliance, env) };
  return (variables) => renewed(variables, change);
}

/** One step; the record's change is what leads to the next. What it waits for, if it does. */
export async function stepRotation(deps: Deps, kept: Kept, options: RotationOptions): Promise<Waiting | undefined> {
  const { status } = kept.resource;
  const app = await deps.resources.find(appType, status.externalId ?? '', { signal: options.signal });
  if (app === undefined || app.deletingSince !== undefined) return undefined;
  try {
    return await takeStep(deps, kept, app, options);
  } catch (error) {
    options.signal.throwIfAborted();
    deps.log.warn({ err: error, datastore: app.spec.name }, 'a datastore does not take who is to log in yet');
    return wait(`${app.spec.name} to take its password: ${messageOf(error)}`, tryAgainMs);
  }
}

async function takeStep(
  deps: Deps,
  kept: Kept,
  app: AppResource,
  options: RotationOptions,
): Promise<Waiting | undefined> {
  const { rotation } = kept.resource.status;
  if (rotation?.state === 'making') return make(deps, kept, app, rotation, options);
  await tellAgain(deps, kept, app, options);
  if (rotation?.state === 'wanted') return begin(kept, app, options);
  return rotation?.state === 'giving' ? give(deps, kept, app, rotation, options) : undefined;
}

async function begin(
  { resource: { status }, appliance }: Kept,
  app: AppResource,
  { isOfOldImage, write }: RotationOptions,
): Promise<Waiting> {
  const { name } = app.spec;
  if (isOfOldImage) return wait(`${name} to run this version's image`, tryAgainMs);
  const next = variablesFor(appliance, name, nextLogin(appliance, appliance.logins.of(status.env)));
  await write((now) =>
    now.rotation?.state === 'wanted' ? { ...now, rotation: { ...now.rotation, state: 'making', next } } : now,
  );
  return wait(`${name} to take another password`);
}

async function make(
  deps: Deps,
  { resource: { status }, appliance }: Kept,
  app: AppResource,
  { next }: Extract<Rotation, { state: 'making' }>,
  { signal, write }: RotationOptions,
): Promise<Waiting> {
  const { of } = appliance.logins;
  const told = await tell(deps, { app, appliance, logins: [of(status.env), of(next)], how: 'beside' }, signal);
  const since = new Date(deps.now()).toISOString();
  await write((now) => {
    if (now.rotation?.state !== 'making') return now;
    const { next: _, ...begun } = now.rotation;
    const rotation = { ...begun, state: 'giving' as const, former: now.env, apps: {} };
    return { ...now, env: next, login: { ...now.login, since, ...told }, rotation };
  });
  return wait('its apps to have another password');
}

/** A primary whose data may be new, or older than what was told last, is told again: its apps can do nothing before. */
async function tellAgain(
  deps: Deps,
  { resource: { status, createdAt }, appliance }: Kept,
  app: AppResource,
  { signal, write }: RotationOptions,
): Promise<void> {
  const { of, first } = appliance.logins;
  const current = of(status.env);
  const primary = primaryOf(statusesOfApp(deps.cell, app.id));
  const { rotation, login } = status;
  // New data has the first one by itself.
  if (current.name === first({}).name || primary === undefined || primary.id === login?.toldJob) return;
  const logins = rotation?.state === 'giving' ? [of(rotation.former), current] : [current];
  // Whoever apps log in as may be one that was forgotten: nobody is shut out before the holders of a password were looked for.
  const hasOthers = login === undefined || login.hasOthers === true;
  const told = await tell(deps, { app, appliance, logins, how: hasOthers ? 'beside' : 'alone' }, signal);
  await write((now) => ({
    ...now,
    login: { since: now.login?.since ?? createdAt, ...told, ...(hasOthers ? { hasOthers } : {}) },
  }));
}

async function give(
  deps: Deps,
  kept: Kept,
  app: AppResource,
  { startedAt, former, apps, isForced = false }: Giving,
  { signal, write, inTurn }: RotationOptions,
): Promise<Waiting | undefined> {
  const { resource, appliance } = kept;
  const change = { former: givenWith(appliance, former), next: givenWith(appliance, resource.status.env) };
  const own = ownApps(resource);
  const isWaitedFor = (appId: string): boolean => own.has(appId) || !isForced;
  const keep = (appId: string, of: RotatedApp) =>
    write((now) => ({ ...now, rotation: withOutcome(now.rotation, appId, { known: apps[appId], of }) }));
  const waiting: Waiting[] = [];
  for (const [appId, known] of Object.entries(apps).toSorted(begunFirst)) {
    if (known.isThrough === true) continue;
    const outcome = await inTurn(appId, () =>
      own.has(appId)
        ? renewIn(deps, { appId, known }, change, signal)
        : lookAt(deps, { appId, known, datastore: app }, change.former.login, signal),
    ).catch((error: unknown): Waiting => {
      signal.throwIfAborted();
      deps.log.warn({ err: error, datastore: app.spec.name, appId }, 'an app does not get another password yet');
      return wait('an app to take another password, which is tried again', tryAgainMs);
    });
    if (!('is' in outcome)) await keep(appId, outcome);
    if (!isWaitedFor(appId)) continue;
    const next = 'is' in outcome ? outcome : waitOf(outcome, app);
    if (next !== undefined) waiting.push(next);
    // One by one: what is wrong with the next one is wrong with one app.
    if (next === underWay) break;
  }
  // What gets on by itself is looked at sooner.
  const [first] = waiting.toSorted((a, b) => a.again.againInMs - b.again.againInMs);
  if (first !== undefined) return first;
  // Those that somebody has led to it meanwhile too: one that was rolled back, and others' that have its variables.
  const holders = await holdersOf(deps, change.former.login, signal);
  for (const { id } of holders) {
    if (apps[id]?.failure !== undefined) continue;
    const known = { appId: id, known: {}, datastore: app };
    // What cannot be looked at now is told of when it is tried again.
    const unseen = (): RotatedApp => ({});
    await keep(id, own.has(id) ? {} : await lookAt(deps, known, change.former.login, signal).catch(unseen));
  }
  if (holders.some(({ id }) => isWaitedFor(id))) return wait('the apps that have its password');
  const told = await tell(deps, { app, appliance, logins: [change.next.login], how: 'alone' }, signal);
  const endedAt = new Date(deps.now()).toISOString();
  await write((now) => {
    if (now.rotation?.state !== 'giving') return now;
    const { former: _, ...begun } = now.rotation;
    const login = { since: now.login?.since ?? startedAt, ...told };
    return { ...now, rotation: { ...begun, state: 'done' as const, endedAt }, login };
  });
  deps.log.info(
    { datastore: app.spec.name },
    'the password of a datastore is another, and the former one opens nothing',
  );
  return undefined;
}

/** Pure. Somebody who asked again meanwhile is not overwritten by what came of what was known before. */
export function withOutcome(
  now: Rotation | undefined,
  appId: string,
  { known, of }: Readonly<{ known: RotatedApp | undefined; of: RotatedApp }>,
): Rotation | undefined {
  if (now?.state !== 'giving' || !isDeepStrictEqual(now.apps[appId], known)) return now;
  return { ...now, apps: { ...now.apps, [appId]: of } };
}

/** Those that are given what it has, and those that give it back. */
function ownApps({ spec, status }: ProvidedResource): ReadonlySet<string> {
  return new Set([...spec.apps.map(({ appId }) => appId), ...Object.keys(status.links)]);
}

function begunFirst([, a]: readonly [string, RotatedApp], [, b]: readonly [string, RotatedApp]): number {
  return Number(b.releaseId !== undefined) - Number(a.releaseId !== undefined);
}

/** Whoever may see the datastore reads it: not of which app, nor what that said. */
function waitOf({ failure, isThrough }: RotatedApp, datastore: AppResource): Waiting | undefined {
  if (failure !== undefined) {
    const look = `flynn ${commandOf(datastore)} credentials -a ${datastore.spec.name}`;
    return wait(`an app that has the former password still: ${look}`, tryAgainMs);
  }
  return isThrough === true ? undefined : underWay;
}

/** The primary's job, if it is known: one that took over meanwhile is told once more. */
async function tell(
  deps: Deps,
  { app, appliance, ...told }: Omit<Kept, 'resource'> & { app: AppResource } & Parameters<typeof admit>[2],
  signal: AbortSignal,
): Promise<{ toldJob?: string }> {
  const primary = primaryOf(statusesOfApp(deps.cell, app.id));
  await admit(deps, { app, appliance }, told, signal);
  return primary === undefined ? {} : { toldJob: primary.id };
}

function givenWith({ logins }: Appliance, env: Record<string, string>): GivenLogin {
  return { login: logins.of(env), env };
}
