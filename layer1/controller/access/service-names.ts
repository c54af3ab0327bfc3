/** May an app be called that in discovery? Who is called what another app is would get that one's requests. */
import { FlynnError } from '@flynn/kit/errors';
import { serviceNameOf } from '../processes/compile.ts';
import type { Deps } from '../deps.ts';
import type { Process } from '../processes/process.ts';
import { releaseType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { namesIn } from './announced.ts';
import type { Announcer } from './announced.ts';
import type { Principal } from './principal.ts';
import { isAtLeast } from './roles.ts';

/** What types are called that name no service ends so. */
const webEnding = /-web$/;

type Asked = Readonly<{
  processes: Readonly<Record<string, Pick<Process, 'ports'>>>;
  /** Undefined for the platform itself. */
  principal: Principal | undefined;
}>;

/** A part of the platform that nobody is known to have asked, see on-behalf.ts, may nothing on other apps. */
export function isPerson(principal: Principal | undefined): principal is Principal {
  return principal !== undefined && principal.kind !== 'service';
}

export function isDeveloper(principal: Principal | undefined, { id, spec }: AppResource): boolean {
  if (!isPerson(principal)) return false;
  return isAtLeast(principal.levelOn({ id, isSystem: spec.isSystem }), 'developer');
}

/**
 * A name that is new to the app may be no other's, live or under way, nor what another's routes lead to by its name, before that
 * one has any jobs: unless whoever asks is developer of that one, too. What is live has the names it has. Throws `denied`. It is so
 * at that moment: who takes names besides has its turn, see name-turns.ts.
 */
export async function checkNames(
  deps: Pick<Deps, 'resources' | 'announced'>,
  app: AppResource,
  { processes, principal }: Asked,
  signal: AbortSignal,
): Promise<void> {
  const { isSystem, datastore, name } = app.spec;
  // What a datastore is called is kept for it from its beginning: see checkDatastores.
  if (isSystem || datastore !== undefined || (isPerson(principal) && principal.isAdmin)) return;
  const { releaseId } = app.status;
  const live = releaseId === undefined ? undefined : await deps.resources.find(releaseType, releaseId, { signal });
  const had = new Set(namesIn(name, live?.spec.processes ?? {}));
  const wanted = namesIn(name, processes).filter((one) => !had.has(one));
  if (wanted.length === 0) return;
  const all = withApp(await deps.announced.all(signal), app);
  for (const one of wanted) {
    const owner = ownersOf(all, one).find((other) => other.id !== app.id && !isDeveloper(principal, other));
    if (owner !== undefined) throw isAnothers(app, one, owner, principal);
  }
}

/** Whether it is the name of another app, of which they are no developer. What this one has as well is its own. */
export async function isOthers(
  deps: Pick<Deps, 'announced'>,
  app: { id: string },
  name: string,
  { principal, signal }: { principal: Principal; signal: AbortSignal },
): Promise<boolean> {
  const all = await deps.announced.all(signal);
  if (all.some((one) => one.app.id === app.id && one.said.some(({ names }) => names.has(name)))) return false;
  return ownersOf(all, name).some((other) => other.id !== app.id && !isDeveloper(principal, other));
}

/** With one that is only about to be made. */
export function withApp(all: readonly Announcer[], app: AppResource): readonly Announcer[] {
  return all.some((one) => one.app.id === app.id) ? all : [...all, { app, said: [] }];
}

/** The apps whose name it is. */
function ownersOf(all: readonly Announcer[], name: string): AppResource[] {
  const announcing = all.filter(({ said }) => said.some(({ names }) => names.has(name))).map(({ app }) => app);
  const home = webEnding.test(name) ? homeOf(all, name) : undefined;
  return [...announcing, ...(home === undefined ? [] : [home])];
}

/** The app that it reads as of: of `shop` and `shop-api` it is the second that has `shop-api-web`. */
export function homeOf(all: readonly Announcer[], name: string): AppResource | undefined {
  const homes = all.map(({ app }) => app).filter(({ spec }) => name.startsWith(`${spec.name}-`));
  return homes.toSorted((a, b) => b.spec.name.length - a.spec.name.length)[0];
}

function isAnothers(app: AppResource, name: string, owner: AppResource, principal: Principal | undefined): FlynnError {
  const isSeen = isPerson(principal) && principal.canSee({ id: owner.id, isSystem: owner.spec.isSystem });
  const whose = isSeen ? `the app ${owner.spec.name}'s` : "another app's";
  const what = `${name} is ${whose} name in discovery, and its requests would come to ${app.spec.name}`;
  const mend = 'give the service, or the process type that is called so, another name';
  return new FlynnError('denied', `${what}: ${mend}, or have a developer of both apps do it`);
}

/** What is announced under the name that a new app's default route leads to would have its requests. Throws `conflict`. */
export async function checkDefaultName(
  deps: Pick<Deps, 'announced'>,
  appName: string,
  signal: AbortSignal,
): Promise<void> {
  const service = serviceNameOf(appName, 'web');
  const all = await deps.announced.all(signal);
  if (!all.some(({ said }) => said.some(({ names }) => names.has(service)))) return;
  const why = `another app announces ${service}, where the default route of ${appName} would lead`;
  throw new FlynnError('conflict', `${why}: choose another name`);
}
