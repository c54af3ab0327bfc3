/** Users and teams: made and changed by admins. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import { shortId } from '@flynn/kit/ids';
import { compareOf } from '@flynn/resource/record';
import { removePiece } from '@flynn/resource/piece';
import type { Piece } from '@flynn/resource/piece';
import type { Deps } from '../deps.ts';
import { pageOf } from '../paging.ts';
import { keyType } from '../resources.ts';
import { teams, users } from './api.ts';
import type { Team, User } from './model.ts';
import { grantType, teamType, tokenType, userType } from './resources.ts';
import type { TeamResource, UserResource } from './resources.ts';
import { services } from './service-token.ts';

/** A transaction holds a hundred operations on any store. */
const batchSize = 50;

export function userHandlers(deps: Deps): Handler[] {
  const { resources } = deps;
  return [
    handle(users.create, async ({ body, signal }) => {
      checkNewName(body.name);
      const spec = { name: body.name, ...(body.role === undefined ? {} : { role: body.role }) };
      return viewUser(await resources.create(userType, { id: shortId(), spec }, { signal }), []);
    }),
    handle(users.list, async ({ query, signal }) => {
      const [all, known] = await Promise.all([
        resources.list(userType, { signal }),
        resources.list(teamType, { signal }),
      ]);
      return pageOf(all.map((user) => viewUser(user, known)).sort(byName), query, ({ id }) => id);
    }),
    handle(users.get, async ({ params, signal }) => {
      const user = await findUser(deps, params.user, signal);
      return viewUser(user, await resources.list(teamType, { signal }));
    }),
    handle(users.update, async ({ params, body, signal }) => {
      const { id } = await findUser(deps, params.user, signal);
      const changed = await resources.update(userType, id, ({ spec }) => withRole(spec, body.role), { signal });
      return viewUser(changed, await resources.list(teamType, { signal }));
    }),
    handle(users.remove, async ({ params, signal }) =>
      removeUser(deps, await findUser(deps, params.user, signal), signal),
    ),

    handle(teams.create, async ({ body, signal }) => {
      const spec = { name: body.name, memberIds: [], ...(body.role === undefined ? {} : { role: body.role }) };
      return viewTeam(await resources.create(teamType, { id: shortId(), spec }, { signal }), []);
    }),
    handle(teams.list, async ({ query, signal }) => {
      const [all, people] = await Promise.all([
        resources.list(teamType, { signal }),
        resources.list(userType, { signal }),
      ]);
      return pageOf(all.map((team) => viewTeam(team, people)).sort(byName), query, ({ id }) => id);
    }),
    handle(teams.update, async ({ params, body, signal }) => {
      const { id } = await findTeam(deps, params.team, signal);
      const changed = await resources.update(teamType, id, ({ spec }) => withRole(spec, body.role), { signal });
      return viewTeam(changed, await resources.list(userType, { signal }));
    }),
    handle(teams.remove, async ({ params, signal }) =>
      removeTeam(deps, await findTeam(deps, params.team, signal), signal),
    ),
    handle(teams.addMember, async ({ params, signal }) => {
      const user = await findUser(deps, params.user, signal);
      return changeMembers(deps, params.team, signal, {
        change: (ids) => [...new Set([...ids, user.id])],
        // A user who is being removed must not stay in a team.
        also: () => ({ compare: [compareOf(user)] }),
      });
    }),
    handle(teams.removeMember, async ({ params, signal }) => {
      const user = await findUser(deps, params.user, signal);
      return changeMembers(deps, params.team, signal, { change: (ids) => ids.filter((id) => id !== user.id) });
    }),
  ];
}

/** Whoever acts for the cluster itself is called so, in the audit trail, too: nobody else is from now on. */
const ownNames: ReadonlySet<string> = new Set(['root', 'platform', 'login', ...services]);

export function isOwnName(name: string): boolean {
  return ownNames.has(name);
}

/** Throws `invalid`. Users of a version before may be called so, and stay. */
export function checkNewName(name: string): void {
  if (!isOwnName(name)) return;
  const whose = name === 'root' ? 'whoever has the root key' : 'a part of the platform';
  throw new FlynnError('invalid', `${name} is what ${whose} is called: give the user another name, like ${name}-user`);
}

export async function findUser(
  deps: Pick<Deps, 'resources'>,
  name: string,
  signal: AbortSignal,
): Promise<UserResource> {
  try {
    return await deps.resources.lookup(userType, name, { signal });
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    throw new FlynnError('not_found', `there is no user "${name}"; list them with: flynn user list`);
  }
}

export async function findTeam(
  deps: Pick<Deps, 'resources'>,
  name: string,
  signal: AbortSignal,
): Promise<TeamResource> {
  try {
    return await deps.resources.lookup(teamType, name, { signal });
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    throw new FlynnError('not_found', `there is no team "${name}"; list them with: flynn team list`);
  }
}

/** Null takes it away. */
export function withRole<Spec extends { role?: unknown }>(spec: Spec, role: Spec['role'] | null): Spec {
  const { role: _, ...rest } = spec;
  // What was taken out is optional in every spec that has a role.
  return (role === null ? rest : { ...rest, role }) as Spec;
}

export async function removeTeam(deps: Deps, team: TeamResource, signal: AbortSignal): Promise<void> {
  const { resources } = deps;
  const given = await resources.list(grantType, {
    signal,
    where: ({ spec }) => spec.kind === 'team' && spec.subjectId === team.id,
  });
  await commitAll(
    deps,
    given.map((grant) => removePiece(grantType, grant)),
    signal,
  );
  await resources.delete(teamType, team.id, { signal });
}

/** Tokens first: whatever is interrupted, from here on nobody gets in as this user. */
export async function removeUser(
  deps: Deps,
  user: UserResource,
  signal: AbortSignal,
): Promise<{ tokens: number; keys: number }> {
  const { resources } = deps;
  const [tokens, keys, grants, memberships] = await Promise.all([
    resources.list(tokenType, { signal, where: ({ spec }) => spec.userId === user.id }),
    resources.list(keyType, { signal, where: ({ spec }) => spec.userId === user.id }),
    resources.list(grantType, { signal, where: ({ spec }) => spec.kind === 'user' && spec.subjectId === user.id }),
    resources.list(teamType, { signal, where: ({ spec }) => spec.memberIds.includes(user.id) }),
  ]);
  await commitAll(
    deps,
    [
      ...tokens.map((token) => removePiece(tokenType, token)),
      ...keys.map((key) => removePiece(keyType, key)),
      ...grants.map((grant) => removePiece(grantType, grant)),
    ],
    signal,
  );
  for (const team of memberships) {
    const without = (ids: readonly string[]): string[] => ids.filter((id) => id !== user.id);
    await resources.update(teamType, team.id, ({ spec }) => ({ ...spec, memberIds: without(spec.memberIds) }), {
      signal,
    });
  }
  await resources.delete(userType, user.id, { signal });
  return { tokens: tokens.length, keys: keys.length };
}

async function commitAll(deps: Deps, pieces: readonly Piece[], signal: AbortSignal): Promise<void> {
  for (let at = 0; at < pieces.length; at += batchSize) {
    await deps.resources.commit(pieces.slice(at, at + batchSize), { signal });
  }
}

async function changeMembers(
  deps: Deps,
  name: string,
  signal: AbortSignal,
  { change, also }: { change: (ids: readonly string[]) => string[]; also?: () => Piece },
): Promise<Team> {
  const team = await findTeam(deps, name, signal);
  const changed = await deps.resources.update(
    teamType,
    team.id,
    ({ spec }) => ({ ...spec, memberIds: change(spec.memberIds) }),
    { signal, ...(also === undefined ? {} : { also }) },
  );
  return viewTeam(changed, await deps.resources.list(userType, { signal }));
}

function viewUser({ id, spec, createdAt }: UserResource, known: readonly TeamResource[]): User {
  const own = known.filter((team) => team.spec.memberIds.includes(id)).map((team) => team.spec.name);
  const issuer = spec.identity === undefined ? {} : { issuer: spec.identity.issuer };
  const role = spec.role === undefined ? {} : { role: spec.role };
  return { id, name: spec.name, ...role, teams: own.sort(), ...issuer, createdAt };
}

function viewTeam({ id, spec, createdAt }: TeamResource, people: readonly UserResource[]): Team {
  const members = people.filter((user) => spec.memberIds.includes(user.id)).map((user) => user.spec.name);
  const role = spec.role === undefined ? {} : { role: spec.role };
  return { id, name: spec.name, ...role, members: members.sort(), createdAt };
}

function byName(a: { name: string }, b: { name: string }): number {
  return a.name < b.name ? -1 : 1;
}
