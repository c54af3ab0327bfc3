/**
 * Of an app, while the password of a datastore is made anew: does it have the former one, and what becomes of it? One that has the
 * resource gets a release with the next; any other is told of, and left as it is.
 */
import type { Login } from '@flynn/appliances/appliance';
import type { Deps } from '../deps.ts';
import { hasOldJobs } from '../deployments/former.ts';
import { findBasis } from '../releases/releases.ts';
import { commandOf } from '../datastores/lookup.ts';
import { appType, deploymentType, releaseType } from '../resources.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import { itsDeployment, liveApp, orWait, rollOut, variablesOf } from './links.ts';
import type { Linked } from './links.ts';
import type { RotatedApp } from './types.ts';
import { namesHolding, renewed } from './variables.ts';
import type { GivenLogin } from './variables.ts';

const lookAgainMs = 500;

export type Waiting = Extract<Linked, { is: 'wait' }>;

export function wait(what: string, againInMs = lookAgainMs): Waiting {
  return { is: 'wait', what, again: { againInMs } };
}

export const underWay = wait('an app to be deployed with another password');

type Looked = Readonly<{ appId: string; known: RotatedApp }>;

/** What becomes of an app that has the former password, or had it; it gets one release, and another when somebody asks again. */
export async function renewIn(
  deps: Deps,
  { appId, known }: Looked,
  change: { former: GivenLogin; next: GivenLogin },
  signal: AbortSignal,
): Promise<RotatedApp | Waiting> {
  const { failure: _, ...tried } = known;
  const app = await liveApp(deps, appId, signal);
  if (app === undefined) return { ...tried, isThrough: true };
  const { name } = app.spec;
  const current = app.status.deploymentId;
  if (current !== undefined) return current === known.deploymentId ? underWay : itsDeployment;
  if (hasOldJobs(deps.cell, app)) return underWay;
  const basis = await findBasis(deps, app, signal);
  const held = basis === undefined ? [] : namesHolding(change.former.login.password, basis.spec);
  if (held.length === 0) return { ...tried, isThrough: true };
  const { deploymentId, version } = tried;
  const deployment =
    deploymentId === undefined ? undefined : await deps.resources.find(deploymentType, deploymentId, { signal });
  if (deployment?.status.state === 'failed') {
    return { ...tried, failure: `v${version} of ${name} failed: ${deployment.status.error ?? 'it was not told why'}` };
  }
  const next = renewed(variablesOf(basis), change);
  if (!next.isChanged) {
    const what = `${held.join(', ')} of ${name} has the former password in it, as somebody set it`;
    const failure = `${what}: set the present one, and ${change.next.login.name} as whoever logs in, in the place of ${change.former.login.name}`;
    return { ...tried, failure };
  }
  // It ran, and somebody went back to a release of before.
  if (deployment !== undefined) return { ...tried, failure: `${name} runs a release with the former password again` };
  // What never ran is not begun by this.
  const isDeployed = app.status.releaseId !== undefined;
  const linked = await orWait(name, async () => ({
    is: 'linked',
    link: { state: 'added', ...(await rollOut(deps, app, basis, next.after, { isDeployed, signal })) },
  }));
  if (linked.is === 'wait') return itsDeployment;
  if (linked.is === 'refused') return { ...tried, failure: linked.failure.message };
  if (linked.is !== 'linked') return { ...tried, isThrough: true };
  const { state: _s, ...made } = linked.link;
  return made;
}

/** An app that does not have the resource is not given the next password: it is told of, and left as it is. */
export async function lookAt(
  deps: Deps,
  { appId, known, datastore }: Looked & Readonly<{ datastore: AppResource }>,
  { password }: Login,
  signal: AbortSignal,
): Promise<RotatedApp> {
  const { failure: _, ...tried } = known;
  const app = await liveApp(deps, appId, signal);
  if (app === undefined) return { ...tried, isThrough: true };
  const held = (await releasesInUse(deps, app, signal)).flatMap(({ spec }) => namesHolding(password, spec));
  if (held.length === 0) return { ...tried, isThrough: true };
  const { name } = app.spec;
  const what = `${[...new Set(held)].join(', ')} of ${name} has the former password in it`;
  const why = `${name} is not among the apps that have ${datastore.spec.name}`;
  return {
    ...tried,
    failure: `${what}, and ${why}: flynn resource attach gives it the other, flynn ${commandOf(datastore)} credentials rotate --force -a ${datastore.spec.name} shuts it out`,
  };
}

/** Apps whose live release has it, or that which is being deployed, or before the first their newest; and those not seen. */
export async function holdersOf(deps: Deps, { password }: Login, signal: AbortSignal): Promise<AppResource[]> {
  const all = await deps.resources.list(appType, {
    signal,
    where: ({ spec, deletingSince }) => spec.datastore === undefined && deletingSince === undefined,
  });
  const holders: AppResource[] = [];
  for (const app of all) {
    try {
      const inUse = await releasesInUse(deps, app, signal);
      if (inUse.some(({ spec }) => namesHolding(password, spec).length > 0)) holders.push(app);
    } catch (error) {
      signal.throwIfAborted();
      deps.log.warn({ err: error, appId: app.id }, 'whether an app has the password of a datastore cannot be seen');
      holders.push(app);
    }
  }
  return holders;
}

async function releasesInUse(deps: Deps, app: AppResource, signal: AbortSignal): Promise<ReleaseResource[]> {
  const { resources } = deps;
  const { deploymentId } = app.status;
  const deployment =
    deploymentId === undefined ? undefined : await resources.find(deploymentType, deploymentId, { signal });
  const [basis, next] = await Promise.all([
    findBasis(deps, app, signal),
    deployment === undefined ? undefined : resources.find(releaseType, deployment.spec.newReleaseId, { signal }),
  ]);
  return [basis, next].filter((one) => one !== undefined);
}
