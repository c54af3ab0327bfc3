/** `flynn events`: what began to be wrong with the cluster, and what ended, newest first. */
import { audit } from '@flynn/controller/audit/api';
import type { AuditEntry } from '@flynn/controller/audit/model';
import { clusterActor } from '@flynn/controller/health/api';
import { parseDurationMs, parseWhole } from '../arguments.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addEventsCommand(parent: Parent): void {
  addCommand<{ since?: string; lines: string }>(parent, {
    name: 'events',
    summary: 'what began to be wrong and what ended: hosts, backups, blobs, certificates, etcd; newest first',
    options: {
      since: ['--since <time>', 'as 30m, 12h or 7d'],
      lines: ['-n, --lines <n>', 'how many', '50'],
    },
    examples: ['flynn events --since 7d'],
    async run(context, { since, lines }) {
      const limit = parseWhole(lines, { what: 'a number of lines', min: 1, max: 1_000 });
      const from = since === undefined ? {} : { since: new Date(Date.now() - parseDurationMs(since)).toISOString() };
      const client = await context.client();
      const entries = await client.call(audit.list, { query: { user: clusterActor, limit, ...from } });
      const found = entries.filter(({ actor }) => actor.kind === 'service').map(eventOf);
      context.show(found, () =>
        formatTable(
          ['AGE', 'WHAT', 'SEVERITY', 'SUBJECT', 'TEXT'],
          found.map(({ at, what, severity, subject, text }) => [
            formatAge(at, Date.now()),
            what,
            severity,
            subject,
            text,
          ]),
        ),
      );
    },
  });
}

/** Without a severity it ended. */
function eventOf({ at, action, outcome, params }: AuditEntry) {
  const { check = '', subject = '', text = '' } = params;
  const [what = ''] = action.split(' ');
  return { at, what, severity: outcome === 'ended' ? undefined : outcome, check, subject, text };
}
