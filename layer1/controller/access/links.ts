/** May an app link that? What another app announces is open to nobody else before: whom it is opened to its developers decide. */
import { FlynnError } from '@flynn/kit/errors';
import type { Deps } from '../deps.ts';
import { resourceType } from '../providers/types.ts';
import type { ProvidedResource } from '../providers/types.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import { linksIn, namesIn } from './announced.ts';
import type { Announcer } from './announced.ts';
import type { Principal } from './principal.ts';
import { isAtLeast } from './roles.ts';
import { homeOf, isDeveloper, isPerson, withApp } from './service-names.ts';

type Content = Pick<ReleaseResource['spec'], 'processes' | 'links'>;

type Following = {
  next: Content;
  before: Content | undefined;
  /** What the app announces where that is not `next`, which only jobs that nobody finds are made of. */
  announcing?: Pick<Content, 'processes'> | undefined;
  principal: Principal | undefined;
};

/**
 * Of a release that is made after `before`: what that one links stays. Undefined as `principal` for the platform itself, which
 * gives apps the links of what they have of providers. Throws `denied`, with the `link`.
 */
export async function checkLinks(
  deps: Pick<Deps, 'announced'>,
  app: AppResource,
  following: Following,
  signal: AbortSignal,
): Promise<void> {
  if (following.principal === undefined) return;
  await check(deps, app, { ...following, given: [], isDeployed: false }, signal);
}

/**
 * Of a release that takes the place of `before`, which is live: whoever linked something may have lost the role that it took, or
 * it was taken from the app. What the app has of providers needs nobody, and what no app has was judged before. Throws `denied`.
 */
export async function checkDeployedLinks(
  deps: Pick<Deps, 'announced' | 'resources'>,
  app: AppResource,
  following: Following,
  signal: AbortSignal,
): Promise<void> {
  if (linksIn(following.next).length === 0) return;
  const hasIt = ({ spec }: ProvidedResource) => spec.apps.some(({ appId }) => appId === app.id);
  const own = await deps.resources.list(resourceType, { signal, where: hasIt });
  const given = own.flatMap(({ status }) => status.services ?? []);
  await check(deps, app, { ...following, given, isDeployed: true }, signal);
}

async function check(
  deps: Pick<Deps, 'announced'>,
  app: AppResource,
  {
    next,
    before,
    announcing = next,
    principal,
    given,
    isDeployed,
  }: Following & { given: readonly string[]; isDeployed: boolean },
  signal: AbortSignal,
): Promise<void> {
  const { isSystem, datastore, name } = app.spec;
  if (isSystem || datastore !== undefined || (isPerson(principal) && principal.isAdmin)) return;
  const own = new Set(namesIn(name, announcing.processes));
  const had = new Set([...given, ...linksThatStay(name, before, own)]);
  const wanted = new Set(linksIn(next).filter((link) => !had.has(link)));
  if (wanted.size === 0) return;
  const all = withApp(await deps.announced.all(signal), app);
  for (const link of wanted) {
    const reason = reasonAgainst(all, { app, link, isOwn: own.has(link), isDeployed }, principal);
    if (reason === undefined) continue;
    throw new FlynnError('denied', `${name} may not be linked to ${link}: ${reason}`, { detail: { link } });
  }
}

/** Nobody judged a link to what the app itself was called: once it is not, it may become another's. */
function linksThatStay(name: string, before: Content | undefined, own: ReadonlySet<string>): string[] {
  if (before === undefined) return [];
  const former = new Set(namesIn(name, before.processes));
  return linksIn(before).filter((link) => own.has(link) || !former.has(link));
}

function reasonAgainst(
  all: readonly Announcer[],
  { app, link, isOwn, isDeployed }: { app: AppResource; link: string; isOwn: boolean; isDeployed: boolean },
  principal: Principal | undefined,
): string | undefined {
  const others = all.filter((one) => one.app.id !== app.id);
  const announcing = others.filter(({ said }) => said.some(({ names }) => names.has(link))).map((one) => one.app);
  const likely = announcing.length > 0 || isOwn ? [] : likelyOwners(all, link);
  const owners = [...announcing, ...likely].filter(({ id }) => id !== app.id);
  if (owners.some(({ spec }) => spec.isSystem)) {
    return 'that is a part of the platform, which an admin of the cluster may open to it';
  }
  if (owners.length > 0 && owners.every((owner) => isDeveloper(principal, owner))) return undefined;
  // They reach it anyway, by what the other app runs.
  const isReached = others.some(
    (one) => one.said.some(({ links }) => links.has(link)) && isDeveloper(principal, one.app),
  );
  if (isReached) return undefined;
  if (owners.length > 0) {
    return "that is another app's service: ask for the role developer on that app, or have an admin of the cluster add it";
  }
  const isOfAll = isPerson(principal) && isAtLeast(principal.clusterLevel, 'developer');
  if (isOwn || likely.length > 0 || isDeployed || isOfAll) return undefined;
  return 'no app has that service yet: deploy the one that is to have it first';
}

/** Of a service that nobody announces yet: whose it will be by its name. */
function likelyOwners(all: readonly Announcer[], link: string): AppResource[] {
  const named = all.map(({ app }) => app).filter(({ spec }) => spec.name === link);
  return [...named, homeOf(all, link)].filter((app) => app !== undefined);
}
