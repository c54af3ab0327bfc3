/** `flynn mysql`: the platform's own MySQL, as people use it. */
import { mysqlKind } from '../datastores/kinds.ts';
import { resource, type Target } from '../datastores/target.ts';
import { addCommand, type Parent } from './command.ts';
import { addDatastoreCommands, startConsole } from './datastore.ts';

const words = {
  dump: 'all that is in the database as one file, SQL as mariadb-dump writes it, compressed by gzip',
  dumpExamples: ['flynn mysql dump -a shop', 'flynn mysql dump -a shop -o - | gunzip > shop.sql'],
  restore: 'a dump',
  restoreFile: 'what "flynn mysql dump", mysqldump or mariadb-dump wrote, compressed by gzip or not',
  restoreExamples: [
    'flynn mysql restore shop.sql.gz -a shop',
    'mysqldump --single-transaction --routines --triggers OLD | flynn mysql restore - -y -a shop',
  ],
};

export function addMysqlCommands(parent: Parent): void {
  addDatastoreCommands(parent, mysqlKind, {
    words,
    addOwn(under) {
      addCommand<Target & { superuser?: boolean; sql: string[] }>(parent, {
        under,
        name: 'console',
        summary:
          "the client mariadb on the primary, in a terminal or fed through a pipe; its exit code is this command's",
        arguments: [['[args...]', 'what mariadb takes, behind --']],
        passesThrough: true,
        options: {
          resource,
          superuser: ['--superuser', 'as an admin of the cluster: not as its apps, but as one above'],
          sql: ['--sql <text>', 'run this, and no more; several times', []],
        },
        examples: [
          'flynn mysql console -a shop',
          "flynn mysql console -a shop --sql 'SELECT count(*) FROM orders'",
          'flynn mysql console -a shop < changes.sql',
        ],
        run: (context, { resource: named, superuser = false, sql }, args) =>
          startConsole(context, mysqlKind, { named, args: [...statementsOf(sql), ...args], isSuperuser: superuser }),
      });
    },
  });
}

/** As one, since the client takes the last of several. On a line of its own, for what ends with a comment. */
function statementsOf(sql: readonly string[]): string[] {
  return sql.length === 0 ? [] : [`--execute=${sql.join('\n;\n')}`];
}
