import { tokens, users } from '@flynn/controller/access/api';
import { roleSchema } from '@flynn/controller/access/model';
import type { Role } from '@flynn/controller/access/roles';
import { fingerprintOf } from '@flynn/kit/certificate';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { formatAge, formatCount, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addUserCommands(parent: Parent): void {
  const user = addCommand(parent, {
    name: 'user',
    summary: 'who may use the cluster',
    lists: true,
    run: listUsers,
  });

  addCommand<{ role?: string }>(parent, {
    under: user,
    name: 'add',
    summary: 'add a user, and print the line with which they get to know the cluster',
    arguments: [['<name>', 'a login name or an address']],
    options: {
      role: ['--role <role>', 'on the cluster: viewer, developer or admin; else only what they are given on apps'],
    },
    async run(context, options, [name = '']) {
      const role = options.role === undefined ? {} : { role: parseRole(options.role) };
      const client = await context.client();
      const added = await client.call(users.create, { body: { name, ...role } });
      const made = await client.call(tokens.create, { body: { name: 'first token', user: name } });
      const line = await clusterLine(context, made.token);
      context.show({ ...added, token: made.token }, () =>
        [
          `${added.name} added${added.role === undefined ? '' : ` as ${added.role}`}. They run this once; it is shown only now, and good until ${made.expiresAt ?? 'it is taken back'}:`,
          '',
          `  ${line}`,
        ].join('\n'),
      );
    },
  });

  addCommand(parent, {
    under: user,
    name: 'role',
    summary: "change a user's role on the cluster",
    arguments: [
      ['<name>', 'the user'],
      ['<role>', 'viewer, developer, admin, or none'],
    ],
    async run(context, _options, [name = '', role = '']) {
      const body = { role: parseRoleOrNone(role) };
      const changed = await (await context.client()).call(users.update, { params: { user: name }, body });
      context.show(changed, () => `${changed.name} is ${changed.role ?? 'nothing'} on the cluster`);
    },
  });

  addCommand(parent, {
    under: user,
    name: 'remove',
    summary: 'remove a user with their tokens, SSH keys and roles',
    arguments: [['<name>', 'the user']],
    async run(context, _options, [name = '']) {
      const counts = await (await context.client()).call(users.remove, { params: { user: name } });
      context.show(
        counts,
        () => `${name} removed, with ${formatCount(counts.tokens, 'token')} and ${formatCount(counts.keys, 'SSH key')}`,
      );
    },
  });
}

async function listUsers(context: Context): Promise<void> {
  const found = await (await context.client()).call(users.list, {});
  context.show(found, () =>
    formatTable(
      ['NAME', 'ROLE', 'TEAMS', 'LOGIN', 'ADDED'],
      found.map((one) => [one.name, one.role, one.teams.join(','), one.issuer, formatAge(one.createdAt, Date.now())]),
    ),
  );
}

export function parseRole(text: string): Role {
  const { data } = roleSchema.safeParse(text);
  if (data === undefined) throw usageError(`"${text}" is no role: it is viewer, developer or admin`);
  return data;
}

export function parseRoleOrNone(text: string): Role | null {
  return text === 'none' ? null : parseRole(text);
}

/** What somebody runs to reach this cluster with the token. */
export async function clusterLine(context: Context, token: string): Promise<string> {
  const { name, controllerUrl, ca } = await context.cluster();
  const pin = ca === undefined ? '' : ` --pin ${fingerprintOf(ca)}`;
  return `flynn cluster add ${name} ${controllerUrl} ${token}${pin}`;
}
