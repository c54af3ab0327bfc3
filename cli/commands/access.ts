import { grants } from '@flynn/controller/access/api';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';
import { parseRole } from './user.ts';

export function addAccessCommands(parent: Parent): void {
  const access = addCommand(parent, {
    name: 'access',
    summary: 'who was given a role on an app',
    lists: true,
    run: listGrants,
  });

  addCommand(parent, {
    under: access,
    name: 'grant',
    summary: 'give a user or a team a role on the app',
    arguments: [
      ['<who>', 'a user, or team:NAME'],
      ['<role>', 'viewer, developer or admin'],
    ],
    async run(context, _options, [who = '', role = '']) {
      const body = { role: parseRole(role) };
      const params = { ...parseWho(who), app: await context.appName() };
      const given = await (await context.client()).call(grants.put, { params, body });
      context.show(given, () => `${who} is ${given.role} on ${params.app}`);
    },
  });

  addCommand(parent, {
    under: access,
    name: 'revoke',
    summary: 'take it back',
    arguments: [['<who>', 'a user, or team:NAME']],
    async run(context, _options, [who = '']) {
      const params = { ...parseWho(who), app: await context.appName() };
      await (await context.client()).call(grants.remove, { params });
      context.show({ revoked: who, app: params.app }, () => `${who} has lost what they were given on ${params.app}`);
    },
  });
}

async function listGrants(context: Context): Promise<void> {
  const params = { app: await context.appName() };
  const found = await (await context.client()).call(grants.list, { params });
  context.show(found, () =>
    formatTable(
      ['KIND', 'NAME', 'ROLE', 'GIVEN'],
      found.map((one) => [one.kind, one.name, one.role, formatAge(one.createdAt, Date.now())]),
    ),
  );
}

function parseWho(text: string): { kind: 'user' | 'team'; name: string } {
  const [kind, name] = text.startsWith('team:')
    ? ['team' as const, text.slice('team:'.length)]
    : ['user' as const, text];
  if (name === '') throw usageError(`"${text}" names nobody: write a user's name, or team:NAME`);
  return { kind, name };
}
