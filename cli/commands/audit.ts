import { audit } from '@flynn/controller/audit/api';
import type { AuditEntry } from '@flynn/controller/audit/model';
import { parseDurationMs, parseWhole } from '../arguments.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const pageSize = 1_000;

export function addAuditCommand(parent: Parent): void {
  addCommand<{ user?: string; since?: string; lines: string }>(parent, {
    name: 'audit',
    summary: 'who changed what, newest first: of one app with -a, else of all',
    options: {
      user: ['--user <name>', "only this user's"],
      since: ['--since <time>', 'as 30m, 12h or 7d'],
      lines: ['-n, --lines <n>', 'how many', '50'],
    },
    async run(context, options) {
      const count = parseWhole(options.lines, { what: 'a number of lines', min: 1, max: 20_000 });
      const { app } = context.options;
      const query = {
        ...(app === undefined ? {} : { app }),
        ...(options.user === undefined ? {} : { user: options.user }),
        ...(options.since === undefined
          ? {}
          : { since: new Date(Date.now() - parseDurationMs(options.since)).toISOString() }),
      };
      const client = await context.client();
      const found: AuditEntry[] = [];
      while (found.length < count) {
        const before = found.at(-1)?.id;
        const limit = Math.min(pageSize, count - found.length);
        const page = await client.call(audit.list, {
          query: { ...query, limit, ...(before === undefined ? {} : { before }) },
        });
        found.push(...page);
        if (page.length < limit) break;
      }
      context.show(found, () =>
        formatTable(
          ['AGE', 'WHO', 'APP', 'DID', 'OUTCOME', 'FROM', 'REQUEST'],
          found.map((one) => [
            formatAge(one.at, Date.now()),
            one.actor.name,
            one.app?.name ?? one.app?.id,
            whatOf(one),
            outcomeOf(one),
            one.from.address,
            one.requestId,
          ]),
        ),
      );
    },
  });
}

function outcomeOf({ outcome, count = 1 }: AuditEntry): string {
  return count === 1 ? outcome : `${outcome} (${count} times)`;
}

/** The path with what stood in it, and what was changed. */
function whatOf({ action, params, changes }: AuditEntry): string {
  const filled = action.replaceAll(/:(\w+)/g, (name, key: string) => params[key] ?? name);
  const made = changes.filter(({ type }) => type !== 'job').map(({ type, action: how }) => `${how} ${type}`);
  return made.length === 0 ? filled : `${filled} (${[...new Set(made)].join(', ')})`;
}
