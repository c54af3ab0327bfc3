/** Which teams does a login put somebody into? Many providers leave the claim out for who is in no group any more. */
import { FlynnError } from '@flynn/kit/errors';
import type { Deps } from '../deps.ts';
import type { OidcIdentity } from './oidc-claims.ts';
import type { OidcSettings } from './oidc.ts';
import { userType } from './resources.ts';

type Settings = Pick<OidcSettings, 'issuer' | 'groupsClaim' | 'scopes'>;

/**
 * Undefined where the provider has nothing to do with teams: admins fill them by hand. Throws `denied` where there are groups that
 * cannot be read: neither to leave somebody in their teams nor to take them out of all would be right.
 */
export async function groupsToJoin(
  { resources }: Pick<Deps, 'resources'>,
  settings: Settings,
  { groups, subject }: Pick<OidcIdentity, 'groups' | 'subject'>,
  signal: AbortSignal,
): Promise<readonly string[] | undefined> {
  const { issuer, groupsClaim } = settings;
  if (groupsClaim === '') return undefined;
  if (groups !== undefined && groups !== 'elsewhere') return groups;
  const told = await resources.list(userType, {
    signal,
    where: ({ spec, status }) => spec.identity?.issuer === issuer && status.tellsGroups === true,
  });
  if (told.length === 0 && !areAskedFor(settings)) return undefined;
  if (groups === undefined) return [];
  throw new FlynnError(
    'denied',
    `the provider does not say in the token which groups ${subject} is in (claim ${groupsClaim}), as some do where they are many: ` +
      'have it tell fewer, as those alone that are assigned to this client',
  );
}

/** Whoever set these counts on them. */
function areAskedFor({ groupsClaim, scopes }: Settings): boolean {
  return groupsClaim !== 'groups' || scopes.split(' ').includes('groups');
}
