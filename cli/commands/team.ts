import { teams } from '@flynn/controller/access/api';
import type { Team } from '@flynn/controller/access/model';
import type { Context } from '../context.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';
import { parseRole, parseRoleOrNone } from './user.ts';

export function addTeamCommands(parent: Parent): void {
  const team = addCommand(parent, {
    name: 'team',
    summary: 'users who are given roles together',
    lists: true,
    run: listTeams,
  });
  const name = ['<team>', 'the team'] as const;
  const user = ['<user>', 'the user'] as const;

  addCommand<{ role?: string }>(parent, {
    under: team,
    name: 'create',
    summary: 'make a team',
    arguments: [name],
    options: {
      role: ['--role <role>', 'on the cluster: viewer, developer or admin; else only what it is given on apps'],
    },
    async run(context, options, [team = '']) {
      const role = options.role === undefined ? {} : { role: parseRole(options.role) };
      tell(context, await (await context.client()).call(teams.create, { body: { name: team, ...role } }));
    },
  });

  addCommand(parent, {
    under: team,
    name: 'role',
    summary: "change a team's role on the cluster",
    arguments: [name, ['<role>', 'viewer, developer, admin, or none']],
    async run(context, _options, [team = '', role = '']) {
      const body = { role: parseRoleOrNone(role) };
      tell(context, await (await context.client()).call(teams.update, { params: { team }, body }));
    },
  });

  addCommand(parent, {
    under: team,
    name: 'add',
    summary: 'put a user into a team',
    arguments: [name, user],
    async run(context, _options, [team = '', member = '']) {
      tell(context, await (await context.client()).call(teams.addMember, { params: { team, user: member } }));
    },
  });

  addCommand(parent, {
    under: team,
    name: 'drop',
    summary: 'take a user out of a team',
    arguments: [name, user],
    async run(context, _options, [team = '', member = '']) {
      tell(context, await (await context.client()).call(teams.removeMember, { params: { team, user: member } }));
    },
  });

  addCommand(parent, {
    under: team,
    name: 'remove',
    summary: 'remove a team; its members stay users',
    arguments: [name],
    async run(context, _options, [team = '']) {
      await (await context.client()).call(teams.remove, { params: { team } });
      context.show({ removed: team }, () => `team ${team} removed`);
    },
  });
}

async function listTeams(context: Context): Promise<void> {
  const found = await (await context.client()).call(teams.list, {});
  context.show(found, () =>
    formatTable(
      ['NAME', 'ROLE', 'MEMBERS', 'MADE'],
      found.map((one) => [one.name, one.role, one.members.join(','), formatAge(one.createdAt, Date.now())]),
    ),
  );
}

function tell(context: Context, team: Team): void {
  context.show(
    team,
    () => `${team.name}${team.role === undefined ? '' : ` (${team.role})`}: ${team.members.join(', ') || 'nobody yet'}`,
  );
}
