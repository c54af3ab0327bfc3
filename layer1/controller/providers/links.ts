/** A resource's variables in the releases of its apps: put in, and taken out again, each time as a release that is rolled out. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import { startDeployment } from '../deployments/deployments.ts';
import { hasOldJobs } from '../deployments/former.ts';
import type { Deps } from '../deps.ts';
import { createRelease, findBasis } from '../releases/releases.ts';
import { appType } from '../resources.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import { mayBeLost } from './holding.ts';
import type { Failure } from './model.ts';
import type { Link, ProvidedResource } from './types.ts';
import { merged, taken } from './variables.ts';
import type { Given, Variables } from './variables.ts';

const lookAgainMs = 500;

/**
 * `wait`: for a deployment under way; `gone`: the app is, or soon will be; `held`: what is live in it has what it is to give
 * back, and `failure` is why it cannot have a release without.
 */
export type Linked =
  | Readonly<{ is: 'linked'; link: Link }>
  | Readonly<{ is: 'refused'; failure: Failure }>
  | Readonly<{ is: 'unlinked' }>
  | Readonly<{ is: 'gone' }>
  | Readonly<{ is: 'held'; failure?: Failure }>
  | Readonly<{ is: 'wait'; what: string; again: Again }>;

/** What apps are taken for that have what a resource gave before its password was made anew. */
export type Renewal = (variables: Variables) => { after: Variables; isChanged: boolean };

/** Done again after it was broken off, it makes another release at most, with the same in it. */
export async function addTo(
  deps: Deps,
  { status }: ProvidedResource,
  { appId, isReplacing }: { appId: string; isReplacing: boolean },
  { renew, signal }: { renew: Renewal; signal: AbortSignal },
): Promise<Linked> {
  const app = await liveApp(deps, appId, signal);
  if (app === undefined) return { is: 'gone' };
  const { name } = app.spec;
  if (app.status.deploymentId !== undefined) return itsDeployment;
  const basis = await findBasis(deps, app, signal);
  const next = merged(renew(variablesOf(basis)).after, givenBy(status));
  if (next.taken.length > 0 && !isReplacing) {
    const message = `${name} has ${next.taken.join(', ')} already, with other values: unset them, or ask for them to be replaced`;
    return { is: 'refused', failure: { code: 'conflict', message } };
  }
  if (!next.isChanged) return { is: 'linked', link: { state: 'added' } };
  return orWait(name, async () => ({
    is: 'linked',
    link: { state: 'added', ...(await rollOut(deps, app, basis, next.after, { signal })) },
  }));
}

/** Only what is live in the app tells whether it has given it back: a deployment that failed leaves what was there before. */
export async function takeFrom(
  deps: Deps,
  { status }: ProvidedResource,
  { appId, link }: { appId: string; link: Link },
  { renew, signal }: { renew: Renewal; signal: AbortSignal },
): Promise<Linked> {
  const app = await liveApp(deps, appId, signal);
  if (app === undefined) return { is: 'unlinked' };
  const { name } = app.spec;
  const { deploymentId, releaseId } = app.status;
  if (deploymentId !== undefined) return itsDeployment;
  if (!mayBeLost(status) && hasOldJobs(deps.cell, app)) return itsOldJobs;
  const basis = await findBasis(deps, app, signal);
  const next = taken(renew(variablesOf(basis)).after, givenBy(status));
  if (!next.isChanged) return { is: 'unlinked' };
  const mayLose = releaseId === undefined || mayBeLost(status);
  if (link.state === 'removing' || link.isHeld === true) return { is: mayLose ? 'unlinked' : 'held' };
  const taking = await orWait(name, async () => ({
    is: 'linked',
    link: { state: 'removing', ...(await rollOut(deps, app, basis, next.after, { signal })) },
  }));
  if (taking.is !== 'refused') return taking;
  return mayLose ? { is: 'unlinked' } : { is: 'held', failure: taking.failure };
}

export async function liveApp(
  { resources }: Deps,
  appId: string,
  signal: AbortSignal,
): Promise<AppResource | undefined> {
  const app = await resources.find(appType, appId, { signal });
  return app === undefined || app.deletingSince !== undefined ? undefined : app;
}

export function variablesOf(basis: ReleaseResource | undefined): Variables {
  return { env: basis?.spec.env ?? {}, references: basis?.spec.references ?? {}, links: basis?.spec.links ?? [] };
}

function givenBy({ env, services = [] }: ProvidedResource['status']): Given {
  return { env, links: services };
}

/** `isDeployed`: false for one that is to take effect with the app's next deployment. */
export async function rollOut(
  deps: Deps,
  app: AppResource,
  basis: ReleaseResource | undefined,
  { env, references, links }: Variables,
  { isDeployed = true, signal }: { isDeployed?: boolean; signal: AbortSignal },
): Promise<Omit<Link, 'state'>> {
  const { artifactId } = basis?.spec ?? {};
  const input = {
    env: { ...env },
    references: { ...references },
    links: [...links],
    meta: { ...basis?.spec.meta },
    // Said, because what is taken over is what the live release has, and there may be none.
    ...(artifactId === undefined ? {} : { artifactId }),
    basis: basis?.id ?? null,
  };
  const release = await createRelease(deps, app, input, { principal: undefined, signal });
  const ofApp = { app: app.id, replaces: app.status.releaseId ?? null };
  const made = { releaseId: release.id, version: release.spec.version };
  if (release.spec.artifactId === undefined || !isDeployed) return made;
  try {
    const asked = { ...ofApp, release: release.id, rollout: {} };
    const { id } = await startDeployment(deps, asked, { principal: undefined, signal });
    return { ...made, deploymentId: id };
  } catch (error) {
    // An app that never was live takes somebody who may give it what it says: with their deployment this comes into force.
    if (app.status.releaseId === undefined && hasCode(error, 'denied')) return made;
    throw error;
  }
}

/** Without the app's name: who may see another app of the resource reads it, too. */
export const itsDeployment: Extract<Linked, { is: 'wait' }> = {
  is: 'wait',
  what: 'a deployment of an app to end',
  again: { againInMs: lookAgainMs },
};

/** They run with what they were started with. */
const itsOldJobs: Extract<Linked, { is: 'wait' }> = {
  is: 'wait',
  what: 'jobs of an app that are not of its live release to end',
  again: { againInMs: lookAgainMs },
};

/** Somebody else changed it meanwhile: after that the release starts from what they made. */
export async function orWait(name: string, work: () => Promise<Linked>): Promise<Linked> {
  try {
    return await work();
  } catch (error) {
    if (hasCode(error, 'conflict')) return itsDeployment;
    // What the app's release cannot be made with is told to who asked for it.
    if (!(error instanceof FlynnError) || !hasCode(error, 'invalid', 'denied')) throw error;
    return { is: 'refused', failure: { code: 'invalid', message: `${name}: ${error.message}` } };
  }
}
