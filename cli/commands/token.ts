import { self, tokens } from '@flynn/controller/access/api';
import { parseDurationMs, usageError } from '../arguments.ts';
import type { Token } from '@flynn/controller/access/model';
import { tokenIdIn } from '@flynn/controller/access/token-text';
import type { Context } from '../context.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';
import { clusterLine, parseRole } from './user.ts';

export function addTokenCommands(parent: Parent): void {
  const token = addCommand(parent, {
    name: 'token',
    summary: 'what opens the cluster: yours, or as an admin all of them',
    lists: true,
    run: listTokens,
  });

  addCommand<{ scope?: string; only: string[]; user?: string; expires?: string }>(parent, {
    under: token,
    name: 'create',
    summary: 'make a token; it is shown this once',
    arguments: [['[name]', 'what it is for']],
    options: {
      scope: ['--scope <role>', 'the most it is good for: viewer, developer or admin'],
      only: ['--only <app>', 'good for this app only; again for more', []],
      user: ['--user <name>', "another's (for admins)"],
      expires: ['--expires <time>', 'as 12h or 30d, or never; 90d unless given'],
    },
    async run(context, options, [name = 'token']) {
      const { scope, only, user, expires } = options;
      const body = {
        name,
        ...(scope === undefined ? {} : { role: parseRole(scope) }),
        ...(only.length === 0 ? {} : { apps: only }),
        ...(user === undefined ? {} : { user }),
        ...(expires === undefined ? {} : { expiresInMs: parseLife(expires) }),
      };
      const made = await (await context.client()).call(tokens.create, { body });
      const line = await clusterLine(context, made.token);
      const until = made.expiresAt === undefined ? 'until it is taken back' : `until ${made.expiresAt}`;
      context.show(made, () =>
        [made.token, '', `It is shown only now, and good ${until}. To use it elsewhere:`, `  ${line}`].join('\n'),
      );
    },
  });

  addCommand(parent, {
    under: token,
    name: 'revoke',
    summary: 'take a token back: it opens nothing from then on',
    arguments: [['<id>', 'as "flynn token list" shows it, or the token itself']],
    async run(context, _options, [id = '']) {
      // Paths are in logs, and what opens something is in none of them.
      const token = tokenIdIn(id);
      if (token === undefined)
        throw usageError('this is no id of a token, and no token: "flynn token list" shows the ids');
      await (await context.client()).call(tokens.revoke, { params: { token } });
      context.show({ revoked: token }, () => 'taken back');
    },
  });

  addCommand(parent, {
    name: 'whoami',
    summary: 'whom the cluster takes you for, and what you may do',
    async run(context) {
      const found = await (await context.client()).call(self.get, {});
      context.show(found, () =>
        [
          `${found.name}${found.kind === 'user' ? '' : ` (${found.kind})`}`,
          `Cluster:  ${found.role}`,
          ...(found.teams.length === 0 ? [] : [`Teams:    ${found.teams.join(', ')}`]),
          ...found.apps.map((app) => `App:      ${app.name} (${app.role})`),
          ...(found.token === undefined
            ? []
            : [
                `Token:    ${found.token.id}, ${found.token.expiresAt === undefined ? 'for ever' : `until ${found.token.expiresAt}`}`,
              ]),
        ].join('\n'),
      );
    },
  });
}

/** A token is its owner's at most: one without a limit of its own is no admin for that. */
function scopeOf({ role, user }: Token): string {
  return role === 'admin' && user !== undefined ? `as ${user}` : role;
}

async function listTokens(context: Context): Promise<void> {
  const found = await (await context.client()).call(tokens.list, {});
  context.show(found, () =>
    formatTable(
      ['ID', 'NAME', 'USER', 'SCOPE', 'APPS', 'EXPIRES', 'MADE'],
      found.map((one) => [
        one.id,
        one.name,
        one.user,
        scopeOf(one),
        one.apps?.join(','),
        one.expiresAt,
        formatAge(one.createdAt, Date.now()),
      ]),
    ),
  );
}

function parseLife(text: string): number | null {
  if (text === 'never') return null;
  const ms = parseDurationMs(text);
  if (ms < 1_000) throw usageError(`"${text}" is over at once: write a time as 12h or 30d`);
  return ms;
}
