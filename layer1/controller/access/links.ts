/** May an app link that? What another app announces is open to nobody else before: whom it is opened to its developers decide. */
import { FlynnError } from '@flynn/kit/errors';
import type { Deps } from '../deps.ts';
import type { AppResource, ReleaseResource } from '../resources.ts';
import { linksIn, namesIn } from './announced.ts';
import type { Announcer } from './announced.ts';
import type { Principal } from './principal.ts';
import { isAtLeast } from './roles.ts';
import { homeOf, isDeveloper, isPerson } from './service-names.ts';

type Content = Pick<ReleaseResource['spec'], 'processes' | 'links'>;

/**
 * Of a release that takes the place of `before`: what that one links stays. Undefined as `principal` for the platform itself, which
 * gives apps the links of what they have of providers. Throws `denied`.
 */
export async function checkLinks(
  deps: Pick<Deps, 'announced'>,
  app: AppResource,
  { next, before, principal }: { next: Content; before: Content | undefined; principal: Principal | undefined },
  signal: AbortSignal,
): Promise<void> {
  if (app.spec.isSystem || principal === undefined || (isPerson(principal) && principal.isAdmin)) return;
  const had = new Set(before === undefined ? [] : linksIn(before));
  const wanted = new Set(linksIn(next).filter((link) => !had.has(link)));
  if (wanted.size === 0) return;
  const own = new Set(namesIn(app.spec.name, next.processes));
  const all = await deps.announced.all(signal);
  for (const link of wanted) {
    const reason = reasonAgainst(all, { link, isOwn: own.has(link) }, principal);
    if (reason !== undefined)
      throw new FlynnError('denied', `${app.spec.name} may not be linked to ${link}: ${reason}`);
  }
}

function reasonAgainst(
  all: readonly Announcer[],
  { link, isOwn }: { link: string; isOwn: boolean },
  principal: Principal,
): string | undefined {
  const announcing = all.filter(({ said }) => said.some(({ names }) => names.has(link))).map(({ app }) => app);
  const owners = announcing.length > 0 ? announcing : likelyOwners(all, link);
  if (owners.some(({ spec }) => spec.isSystem)) {
    return 'that is a part of the platform, which an admin of the cluster may open to it';
  }
  if (owners.length > 0 && owners.every((owner) => isDeveloper(principal, owner))) return undefined;
  // They reach it anyway, by what the other app runs.
  const isReached = all.some(
    ({ app, said }) => said.some(({ links }) => links.has(link)) && isDeveloper(principal, app),
  );
  if (isReached) return undefined;
  if (owners.length > 0) {
    return "that is another app's service: ask for the role developer on that app, or have an admin of the cluster add it";
  }
  const isOfAll = isPerson(principal) && isAtLeast(principal.clusterLevel, 'developer');
  return isOwn || isOfAll ? undefined : 'no app has that service yet: deploy the one that is to have it first';
}

/** Of a service that nobody announces yet: whose it will be by its name. */
function likelyOwners(all: readonly Announcer[], link: string): AppResource[] {
  const named = all.map(({ app }) => app).filter(({ spec }) => spec.name === link);
  return [...named, homeOf(all, link)].filter((app) => app !== undefined);
}
