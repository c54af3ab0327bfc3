/** The kinds User, Team and Token: who may come in. Of a token everything is told but what opens the door. */
import { hasCode } from '@flynn/kit/errors';
import { shortId } from '@flynn/kit/ids';
import { compareOf, refusal } from '@flynn/resource/record';
import type { Owner } from '@flynn/resource/type';
import { z } from 'zod';
import { roleSchema, teamName, userName } from '../access/model.ts';
import { teamType, tokenType, userType } from '../access/resources.ts';
import type { TeamResource, UserResource } from '../access/resources.ts';
import { checkNewName, findUser, removeTeam, removeUser, withRole } from '../access/users.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import { differences } from './difference.ts';
import { atField } from './fields.ts';
import { defineKind } from './kind.ts';
import type { Applied, ApplyContext, Wanted } from './kind.ts';

/** Null takes the role on the cluster away. */
const role = roleSchema.nullable().optional();
const wantedUserSchema = z.strictObject({ role });
const wantedTeamSchema = z.strictObject({
  role,
  /** All of them: whoever is not here leaves. */
  members: z.array(userName).max(1_000).optional(),
});

export const userKind = defineKind({
  type: userType,
  summary: 'somebody with tokens and SSH keys, with a role on the cluster or with none',
  columns: { ROLE: 'spec.role', ISSUER: 'status.issuer', LOGIN: 'status.lastLoginAt' },
  wanted: wantedUserSchema,
  async view(_deps, { spec, status }) {
    return {
      spec: { role: spec.role ?? null },
      status: spec.identity === undefined ? {} : { issuer: spec.identity.issuer, ...status },
    };
  },
  apply: applyUser,
  async remove(deps, user, signal) {
    await removeUser(deps, user, signal);
  },
});

export const teamKind = defineKind({
  type: teamType,
  summary: 'users who have its role on the cluster, and what it is given on apps',
  columns: { ROLE: 'spec.role', MEMBERS: 'spec.members' },
  wanted: wantedTeamSchema,
  async view(_deps, { spec }, read) {
    const users = await Promise.all(spec.memberIds.map((id) => read.find(userType, id)));
    const members = users.flatMap((user) => (user === undefined ? [] : [user.spec.name]));
    return { spec: { role: spec.role ?? null, members: members.toSorted() } };
  },
  apply: applyTeam,
  remove: removeTeam,
});

export const tokenKind = defineKind({
  type: tokenType,
  summary: 'what opens the API: made with "flynn token create", taken back by deleting it',
  columns: { FOR: 'spec.for', USER: 'spec.user', ROLE: 'spec.role', EXPIRES: 'spec.expiresAt' },
  isReadOnly: true,
  isRemovable: true,
  async view(_deps, { spec }, read) {
    const { userId, appIds, expiresAt } = spec;
    const [user, apps] = await Promise.all([
      userId === undefined ? undefined : read.find(userType, userId),
      Promise.all((appIds ?? []).map(async (id) => (await read.find(appType, id))?.spec.name ?? id)),
    ]);
    return {
      spec: {
        for: spec.name,
        role: spec.role,
        ...(userId === undefined ? {} : { user: user?.spec.name ?? userId }),
        ...(appIds === undefined ? {} : { apps }),
        ...(expiresAt === undefined ? {} : { expiresAt }),
      },
    };
  },
});

async function applyUser(
  deps: Deps,
  { name, owner, labels, revision, spec }: Wanted<z.output<typeof wantedUserSchema>>,
  { isDryRun, signal, current }: ApplyContext<UserResource>,
): Promise<Applied> {
  const given = nameIn('user', name, { owner, rule: userName });
  if (current === undefined) atField(`user ${given}`, 'name', () => checkNewName(given));
  const before = { labels: current?.labels ?? {}, spec: { role: current?.spec.role ?? null } };
  const after = { labels: labels ?? before.labels, spec: { ...before.spec, ...spec } };
  const changes = differences(current === undefined ? {} : before, after);
  const write = (known?: UserSpec) => withRole<UserSpec>(known ?? { name: given }, after.spec.role);
  if (!isDryRun && current === undefined) {
    await deps.resources.create(userType, { id: shortId(), labels: after.labels, spec: write() }, { signal });
  } else if (!isDryRun && current !== undefined && changes.length > 0) {
    const change = ({ spec: known }: UserResource) => ({ spec: write(known), labels: after.labels });
    await deps.resources.change(userType, current.id, change, { signal, ...expecting(revision) });
  }
  return { name: current?.spec.name ?? given, isNew: current === undefined, changes };
}

async function applyTeam(
  deps: Deps,
  { name, owner, labels, revision, spec }: Wanted<z.output<typeof wantedTeamSchema>>,
  { isDryRun, signal, current }: ApplyContext<TeamResource>,
): Promise<Applied> {
  const given = nameIn('team', name, { owner, rule: teamName });
  const known = await membersOf(deps, current?.spec.memberIds ?? [], signal);
  const wanted = spec.members === undefined ? undefined : await usersNamed(deps, given, spec.members, signal);
  const names = (wanted ?? known).map((user) => user.spec.name).toSorted();
  const before = {
    labels: current?.labels ?? {},
    spec: { role: current?.spec.role ?? null, members: known.map((user) => user.spec.name).toSorted() },
  };
  const after = {
    labels: labels ?? before.labels,
    spec: { role: spec.role === undefined ? before.spec.role : spec.role, members: names },
  };
  const changes = differences(current === undefined ? {} : before, after);
  const write = (old?: TeamSpec) => {
    const base = { ...(old ?? { name: given, memberIds: [] }) };
    return withRole<TeamSpec>(
      wanted === undefined ? base : { ...base, memberIds: wanted.map(({ id }) => id) },
      after.spec.role,
    );
  };
  // A user who is being removed must not stay in a team.
  const also = () => ({ compare: (wanted ?? []).map(compareOf) });
  if (!isDryRun && current === undefined) {
    await deps.resources.create(teamType, { id: shortId(), labels: after.labels, spec: write() }, { signal, also });
  } else if (!isDryRun && current !== undefined && changes.length > 0) {
    const change = ({ spec: old }: TeamResource) => ({ spec: write(old), labels: after.labels });
    await deps.resources.change(teamType, current.id, change, { signal, also, ...expecting(revision) });
  }
  return { name: current?.spec.name ?? given, isNew: current === undefined, changes };
}

type UserSpec = UserResource['spec'];
type TeamSpec = TeamResource['spec'];

function expecting(revision: number | undefined): { expectRevision?: number } {
  return revision === undefined ? {} : { expectRevision: revision };
}

function nameIn(
  what: string,
  name: string | undefined,
  { owner, rule }: { owner: Owner | undefined; rule: z.ZodType<string> },
): string {
  if (name === undefined) throw refusal(what, [{ path: 'name', message: `a ${what} has a name` }]);
  if (owner !== undefined) {
    throw refusal(`${what} ${name}`, [{ path: 'owner', message: `a ${what} belongs to nothing` }]);
  }
  const wrong = rule.safeParse(name).error?.issues[0];
  if (wrong !== undefined) throw refusal(`${what} ${name}`, [{ path: 'name', message: wrong.message }]);
  return name;
}

async function membersOf(deps: Deps, ids: readonly string[], signal: AbortSignal): Promise<UserResource[]> {
  const found = await Promise.all(ids.map((id) => deps.resources.find(userType, id, { signal })));
  return found.filter((user) => user !== undefined);
}

async function usersNamed(
  deps: Deps,
  team: string,
  names: readonly string[],
  signal: AbortSignal,
): Promise<UserResource[]> {
  const unique = [...new Set(names)];
  return Promise.all(
    unique.map(async (name) => {
      try {
        return await findUser(deps, name, signal);
      } catch (error) {
        if (!hasCode(error, 'not_found')) throw error;
        const path = `members.${names.indexOf(name)}`;
        throw refusal(`team ${team}`, [{ path, message: `there is no user "${name}"` }]);
      }
    }),
  );
}
