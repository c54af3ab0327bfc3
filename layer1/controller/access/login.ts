/** From an identity that the provider vouches for to a user with a token. */
import { createHash } from 'node:crypto';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import type { Deps } from '../deps.ts';
import { login } from './api-login.ts';
import { noteLogin } from './last-login.ts';
import { checkIsForUs } from './login-names.ts';
import { userName } from './model.ts';
import { OidcVerifier } from './oidc.ts';
import type { OidcIdentity } from './oidc-claims.ts';
import { groupsToJoin } from './provider-groups.ts';
import { teamType, userType } from './resources.ts';
import type { UserResource } from './resources.ts';
import { noLimits } from './roles.ts';
import { makeToken } from './tokens.ts';
import { findUser, isOwnName } from './users.ts';

/** What changed at the provider counts here after a day at the latest. */
const lifeMs = 86_400_000;
const maxAttempts = 8;

export function loginHandlers(deps: Deps): Handler[] {
  const settings = deps.settings.oidc;
  const verifier = settings === undefined ? undefined : new OidcVerifier(settings, deps.now);
  return [
    handle(login.get, async () => {
      if (settings === undefined) throw noLogin();
      return { issuer: settings.issuer, clientId: settings.clientId, scope: settings.scopes };
    }),
    handle(login.create, async ({ body, signal }) => {
      if (settings === undefined || verifier === undefined) throw noLogin();
      await checkIsForUs(deps, settings, body, signal);
      const identity = await verifier.identify(body.idToken, body.nonce, signal, body.accessToken);
      const groups = await groupsToJoin(deps, settings, identity, signal);
      const user = await userOf(deps, settings, identity, signal);
      if (groups !== undefined) await joinTeams(deps, user, groups, signal);
      const expiresAt = new Date(deps.now() + lifeMs).toISOString();
      const login = { expiresAt, tellsGroups: typeof identity.groups === 'object' };
      return { user: user.spec.name, token: await letIn(deps, user, login, signal), expiresAt };
    }),
  ];
}

async function letIn(
  deps: Deps,
  { id }: UserResource,
  { expiresAt, tellsGroups }: { expiresAt: string; tellsGroups: boolean },
  signal: AbortSignal,
): Promise<string> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const known = await deps.resources.get(userType, id, { signal });
      const user = await noteLogin(deps, known, { tellsGroups, signal });
      return (await makeToken(deps, { name: 'login', user, limits: noLimits, expiresAt }, signal)).text;
    } catch (error) {
      // Another login of theirs was written down at the same moment.
      if (!hasCode(error, 'conflict') || attempt >= maxAttempts) throw error;
    }
  }
}

function noLogin(): FlynnError {
  return new FlynnError('not_found', 'this cluster has no login: an admin makes a user with "flynn user add"');
}

/** By issuer and subject, which stay; an address changes hands. */
async function userOf(
  deps: Deps,
  { issuer, domains }: { issuer: string; domains: readonly string[] },
  identity: OidcIdentity,
  signal: AbortSignal,
): Promise<UserResource> {
  const { resources } = deps;
  const own = { issuer, subject: identity.subject };
  const [known] = await resources.list(userType, {
    signal,
    where: ({ spec }) => spec.identity?.issuer === issuer && spec.identity.subject === identity.subject,
  });
  if (known !== undefined) return known;
  const name = nameFor(issuer, identity);
  try {
    return await resources.create(userType, { id: shortId(), spec: { name, identity: own } }, { signal });
  } catch (error) {
    if (!hasCode(error, 'conflict')) throw error;
  }
  // An admin may have added them beforehand. An address is proof of that only where we know whose addresses they are.
  const named = await findUser(deps, name, signal);
  const isTheirs =
    named.spec.identity === undefined && name === identity.email && identity.isEmailVerified && domains.length > 0;
  if (!isTheirs) {
    throw new FlynnError(
      'conflict',
      `the user ${name} is somebody else's here: an admin can remove it (flynn user remove ${name})`,
    );
  }
  return resources.update(userType, named.id, ({ spec }) => ({ ...spec, identity: own }), {
    signal,
    expectRevision: named.revision,
  });
}

/**
 * Roles are given to names: an address is one only if the provider has seen that it is theirs. What else reads as an address is not
 * one either, where people choose their names themselves.
 */
function nameFor(issuer: string, { email, isEmailVerified, name, subject }: OidcIdentity): string {
  if (isEmailVerified && isFree(email)) return email;
  const other = [name, subject].find((one) => isFree(one) && !one.includes('@'));
  return other ?? `user-${createHash('sha256').update(`${issuer} ${subject}`).digest('hex').slice(0, 12)}`;
}

function isFree(name: string | undefined): name is string {
  return name !== undefined && userName.safeParse(name).success && !isOwnName(name);
}

/** Teams are made by admins; who is in them, the provider says. */
async function joinTeams(
  deps: Deps,
  user: UserResource,
  groups: readonly string[],
  signal: AbortSignal,
): Promise<void> {
  const wanted = new Set(groups.map((group) => group.toLowerCase()));
  for (const team of await deps.resources.list(teamType, { signal })) {
    const isIn = team.spec.memberIds.includes(user.id);
    if (isIn === wanted.has(team.spec.name)) continue;
    const change = (ids: readonly string[]) =>
      isIn ? ids.filter((id) => id !== user.id) : [...new Set([...ids, user.id])];
    await deps.resources.update(teamType, team.id, ({ spec }) => ({ ...spec, memberIds: change(spec.memberIds) }), {
      signal,
    });
  }
}
