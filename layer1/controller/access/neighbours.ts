/** What of one app touches others': names in discovery, host names and services that routes lead to. */
import { appliances } from '@flynn/appliances/appliances';
import { FlynnError } from '@flynn/kit/errors';
import { nameKey } from '@flynn/resource/keys';
import { isNamedByType, namesOf, serviceNameOf } from '../processes/compile.ts';
import { isDispensable, isNameOfDispensable } from '../formations/counts.ts';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import type { Process } from '../processes/process.ts';
import { appType, deploymentType, ownedBy, releaseType, routeType } from '../resources.ts';
import type { AppResource } from '../resources.ts';
import { namesIn } from './announced.ts';
import type { Principal } from './principal.ts';
import { isAtLeast } from './roles.ts';
import { isOthers } from './service-names.ts';

type Processes = Readonly<Record<string, Pick<Process, 'ports'>>>;

/** A type that names no service has the name of its app and its own: no role of its jobs may have that too. */
function checkRoles(app: AppResource, processes: Processes): void {
  for (const [type, { ports }] of Object.entries(processes)) {
    const own = serviceNameOf(app.spec.name, type);
    if (!isNamedByType(type, ports) || !servicesOf({ [type]: { ports } }).includes(own)) continue;
    const why = `the role ${own} of ${type} has the name that ${type} answers under anyway, as it names no service`;
    throw new FlynnError('invalid', `${why}: call it ${own}-primary, or whatever it is`);
  }
}

/** Announced under the platform's names, an app would be sent what is meant for the platform: keys, sources, logs. */
export async function checkServices(
  deps: Deps,
  app: AppResource,
  processes: Processes,
  signal: AbortSignal,
): Promise<void> {
  checkRoles(app, processes);
  const wanted = servicesOf(processes);
  if (app.spec.isSystem || wanted.length === 0) return;
  const platform = await deps.resources.list(appType, { signal, where: ({ spec }) => spec.isSystem });
  await checkReserved(deps, app, processes, signal);
  await checkDatastores(deps, app, processes, signal);
  if (app.spec.datastore !== undefined && app.status.releaseId === undefined) await checkUntaken(deps, app, signal);
  for (const { spec, status } of platform) {
    const { releaseId } = status;
    const live = releaseId === undefined ? undefined : await deps.resources.find(releaseType, releaseId, { signal });
    const taken = new Set([spec.name, ...namesIn(spec.name, live?.spec.processes ?? {})]);
    const name = wanted.find((one) => taken.has(one));
    if (name === undefined) continue;
    throw new FlynnError('denied', `the service ${name} is the platform's own: call it ${app.spec.name}-${name}`);
  }
}

/** Announced as a datastore's, an app would be told what is meant for that: passwords, and all that is written. */
export async function checkDatastores(
  deps: Pick<Deps, 'resources'>,
  app: AppResource,
  processes: Processes,
  signal: AbortSignal,
): Promise<void> {
  const wanted = servicesOf(processes);
  if (wanted.length === 0) return;
  const all = await deps.resources.list(appType, { signal, where: ({ spec }) => spec.datastore !== undefined });
  for (const { id, spec } of all) {
    if (id === app.id) continue;
    const own = namesOfDatastore(spec);
    const name = wanted.find((one) => own.has(one));
    if (name === undefined) continue;
    throw new FlynnError('denied', `the service ${name} is of the datastore ${spec.name}: call yours something else`);
  }
}

/**
 * Parts of the platform that people had no need to leave a name to came later than the first clusters: it is kept for them from
 * now on, also while they are not there. Whose releases had it before goes on; and while an app of people announces it there is no
 * such part, so another may as well: a review app, or another copy.
 */
async function checkReserved(deps: Deps, app: AppResource, processes: Processes, signal: AbortSignal): Promise<void> {
  const wanted = servicesOf(processes).filter(isNameOfDispensable);
  if (app.spec.isSystem || wanted.length === 0) return;
  const releases = await deps.resources.list(releaseType, { owner: ownedBy(app.id), signal });
  const had = new Set(releases.flatMap(({ spec }) => servicesOf(spec.processes)));
  for (const name of wanted) {
    if (had.has(name) || (await findAnnouncer(deps, new Set([name]), signal, isOfPeople)) !== undefined) continue;
    throw keptForPlatform(app, name);
  }
}

/** Of a release that is deployed: one from before, too, may announce a part's name only if there is none, or what is live does. */
export async function checkNoSuchPart(
  deps: Pick<Deps, 'resources'>,
  app: AppResource,
  processes: Processes,
  signal: AbortSignal,
): Promise<void> {
  const wanted = servicesOf(processes).filter(isNameOfDispensable);
  if (app.spec.isSystem || wanted.length === 0) return;
  const parts = await deps.resources.list(appType, { signal, where: ({ spec }) => isDispensable(spec) });
  const { releaseId } = app.status;
  const live = releaseId === undefined ? undefined : await deps.resources.find(releaseType, releaseId, { signal });
  const had = servicesOf(live?.spec.processes ?? {});
  const name = wanted.find((one) => !had.includes(one) && parts.some(({ spec }) => spec.name === one));
  if (name !== undefined) throw keptForPlatform(app, name);
}

function keptForPlatform({ spec }: AppResource, name: string): FlynnError {
  return new FlynnError('denied', `the service ${name} is kept for the platform: call it ${spec.name}-${name}`);
}

/** Beside somebody's instances it would be sent half of what is theirs, and they what people tell the platform. */
export async function checkPartUntaken(
  deps: Pick<Deps, 'resources' | 'store'>,
  { name, host }: { name: string; host: string },
  signal: AbortSignal,
): Promise<void> {
  const announcer = await findAnnouncer(deps, new Set([name]), signal);
  if (announcer !== undefined) throw new FlynnError('conflict', `${announcer.app} announces ${name} already`);
  await checkUndivided(deps, { id: '', spec: { name, isSystem: true } }, host, signal);
}

/**
 * Whose app answers below a page's host name is told all that its cookies say, and passes for the page: such a host name is one
 * app's, with all its paths, whoever asks. `conflict` otherwise.
 */
export async function checkUndivided(
  deps: Pick<Deps, 'resources' | 'store'>,
  app: { id: string; spec: Pick<AppResource['spec'], 'name' | 'isSystem'> },
  host: string,
  signal: AbortSignal,
): Promise<void> {
  const { entries } = await deps.store.list(nameKey(routeType.name, `${host}/`), { signal });
  for (const { value: routeId } of entries) {
    const route = await deps.resources.find(routeType, routeId, { signal });
    if (route === undefined || route.spec.appId === app.id) continue;
    const other = await deps.resources.find(appType, route.spec.appId, { signal });
    if (other === undefined || (!isDispensable(app.spec) && !isDispensable(other.spec))) continue;
    const why = isDispensable(app.spec) ? `${other.spec.name} has a route there` : `all of it is ${other.spec.name}'s`;
    throw new FlynnError('conflict', `${host} is taken, ${why}: use another host name`);
  }
}

/** What a new datastore's members are to be known by somebody may have begun to announce before. */
async function checkUntaken(deps: Pick<Deps, 'resources'>, app: AppResource, signal: AbortSignal): Promise<void> {
  const found = await findAnnouncer(deps, namesOfDatastore(app.spec), signal, ({ id }) => id !== app.id);
  if (found === undefined) return;
  const whose = `which is to be the datastore ${app.spec.name}'s`;
  throw new FlynnError('conflict', `${found.app} announces ${found.name}, ${whose}`);
}

function isOfPeople({ spec }: AppResource): boolean {
  return !spec.isSystem;
}

/** Which app, of those that `where` says, has one of the names, in what is live or is being deployed. */
async function findAnnouncer(
  { resources }: Pick<Deps, 'resources'>,
  names: ReadonlySet<string>,
  signal: AbortSignal,
  where: (app: AppResource) => boolean = () => true,
): Promise<{ app: string; name: string } | undefined> {
  for (const { spec, status } of await resources.list(appType, { signal, where })) {
    const { releaseId, deploymentId } = status;
    const next =
      deploymentId === undefined ? undefined : await resources.find(deploymentType, deploymentId, { signal });
    for (const one of new Set([releaseId, next?.spec.newReleaseId])) {
      const release = one === undefined ? undefined : await resources.find(releaseType, one, { signal });
      const name = servicesOf(release?.spec.processes ?? {}).find((announced) => names.has(announced));
      if (name !== undefined) return { app: spec.name, name };
    }
  }
  return undefined;
}

/** Where members are found, and who of them has which role. */
function namesOfDatastore({ name, datastore }: AppResource['spec']): ReadonlySet<string> {
  const appliance = appliances.get(datastore?.appliance ?? '');
  const ends = [...Object.keys(appliance?.roles ?? {}), appliance?.name ?? '', 'member', 'patroni'];
  return new Set([name, ...ends.map((end) => `${name}-${end}`)]);
}

/** A path of a host name that is another app's would take that part of its requests, with what they carry. */
export async function checkRoutePlace(
  deps: Deps,
  principal: Principal,
  app: Pick<AppResource, 'id'>,
  place: RoutePlace,
  signal: AbortSignal,
): Promise<void> {
  const domain = place.domain ?? place.serverName;
  if (principal.isAdmin || domain === undefined) return;
  const { settings } = deps;
  if (domain === '*' || [settings.domain, ...settings.formerDomains].some((own) => domain === `*.${own}`)) {
    const whose = domain === '*' ? 'nobody has' : 'apps get by their names';
    throw new FlynnError('denied', `${domain} takes the host names that ${whose}: ask an admin of the cluster`);
  }
  // Part of what somebody else's wildcard stands for, too.
  const names = domain.startsWith('*.') ? [domain] : [domain, domain.replace(/^[^.]*\.?/, '*.')];
  for (const name of names) {
    // Each port has names of its own, and what asks for one there may as well mean the one of the web.
    const shared = place.port === undefined ? [] : [`tcp:${place.port}/${name}`];
    for (const prefix of [`${name}/`, ...shared]) {
      if (!(await isForeign(deps, principal, app, prefix, signal))) continue;
      throw new FlynnError(
        'denied',
        `${name} is another app's: use a host name of your own, or ask for a role on that app`,
      );
    }
  }
}

/** Where a route answers: a host name of the web, or at a port that names share. */
export type RoutePlace = Readonly<{
  domain?: string | undefined;
  port?: number | undefined;
  serverName?: string | undefined;
}>;

/** Whether there is a route of an app that is not for them to change: below a host name, or at exactly this place of a port. */
async function isForeign(
  deps: Deps,
  principal: Principal,
  app: Pick<AppResource, 'id'>,
  place: string,
  signal: AbortSignal,
): Promise<boolean> {
  const prefix = nameKey(routeType.name, place);
  const { entries } = await deps.store.list(prefix, { signal });
  for (const { key, value: routeId } of entries) {
    if (!place.endsWith('/') && key !== prefix) continue;
    const route = await deps.resources.find(routeType, routeId, { signal });
    if (route === undefined || route.spec.appId === app.id) continue;
    const other = await findApp(deps, route.spec.appId, signal);
    if (isAtLeast(principal.levelOn({ id: other.id, isSystem: other.spec.isSystem }), 'developer')) continue;
    return true;
  }
  return false;
}

/** A route makes a service public: whose it is decides that. */
export async function checkRouteTarget(
  deps: Pick<Deps, 'resources' | 'announced'>,
  { principal, signal }: { principal: Principal; signal: AbortSignal },
  app: { id: string; spec: { name: string } },
  service: string | undefined,
  ownProcesses: () => Promise<Processes>,
): Promise<void> {
  if (principal.isAdmin || service === undefined) return;
  const isOwn =
    servicesOf(await ownProcesses()).includes(service) || (await isOfNextRelease(deps, app.spec.name, service, signal));
  if (isOwn && !(await isOthers(deps, app, service, { principal, signal }))) return;
  throw new FlynnError(
    'denied',
    `${service} is no service of ${app.spec.name}: add the route to the app that has it, or ask an admin of the cluster`,
  );
}

/** NAME-TYPE may come before the process type does; but `shop-api-web` is not of `shop` where there is a `shop-api`. */
async function isOfNextRelease(
  { resources }: Pick<Deps, 'resources'>,
  name: string,
  service: string,
  signal: AbortSignal,
): Promise<boolean> {
  if (!service.startsWith(`${name}-`)) return false;
  for (let dash = service.indexOf('-', name.length + 1); dash !== -1; dash = service.indexOf('-', dash + 1)) {
    const others = await resources.list(appType, { object: service.slice(0, dash), signal });
    if (others.length > 0) return false;
  }
  return true;
}

/** Roles among them: who has one's name is sent what is meant for it. */
function servicesOf(processes: Processes): string[] {
  return Object.values(processes).flatMap(({ ports }) => ports.flatMap(namesOf));
}
