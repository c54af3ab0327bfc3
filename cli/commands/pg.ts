/** `flynn pg`: the platform's own PostgreSQL, as people use it. */
import { usageError } from '../arguments.ts';
import { postgresKind } from '../datastores/kinds.ts';
import { resource, type Target } from '../datastores/target.ts';
import { addCommand, type Parent } from './command.ts';
import { addDatastoreCommands, startConsole } from './datastore.ts';
import { addPgHistoryCommands } from './pg-history.ts';

const words = {
  dump: 'all that is in the database as one file, in the format of pg_dump',
  dumpExamples: ['flynn pg dump -a shop', 'flynn pg dump -a shop -o - | pg_restore --list'],
  restore: 'a dump, or SQL,',
  restoreFile: 'what "flynn pg dump" or pg_dump wrote',
  restoreExamples: [
    'flynn pg restore shop.dump -a shop',
    'pg_dump --format custom --no-owner --no-acl OLD | flynn pg restore - -y -a shop',
  ],
};

export function addPostgresCommands(parent: Parent): void {
  addDatastoreCommands(parent, postgresKind, {
    words,
    addOwn(under) {
      addCommand<Target & { superuser?: boolean; sql: string[] }>(parent, {
        under,
        name: 'psql',
        summary: "psql on the primary, in a terminal or fed through a pipe; its exit code is this command's",
        arguments: [['[args...]', 'what psql takes, behind --']],
        passesThrough: true,
        options: {
          resource,
          superuser: ['--superuser', 'as an admin of the cluster: not as the owner of the database, but as one above'],
          sql: ['--sql <text>', 'run this, and no more; several times', []],
        },
        examples: [
          'flynn pg psql -a shop',
          "flynn pg psql -a shop --sql 'SELECT count(*) FROM orders'",
          'flynn pg psql -a shop -- --csv --file - < report.sql',
        ],
        async run(context, { resource: named, superuser = false, sql, cluster }, args) {
          if (/\s/.test(cluster ?? '')) {
            throw usageError('-c names a cluster here: write --sql "…", or what psql takes behind --');
          }
          const all = [...sql.flatMap((text) => ['--command', text]), ...args];
          return startConsole(context, postgresKind, { named, args: all, isSuperuser: superuser });
        },
      });
      addPgHistoryCommands(parent, under);
    },
  });
}
