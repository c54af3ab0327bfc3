/** `flynn pg`: the platform's own PostgreSQL, as people use it. */
import { resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { datastores, replacedSchema } from '@flynn/controller/datastores/api';
import type { DatastoreView, Member } from '@flynn/controller/datastores/api';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { encodeFrame } from '@flynn/kit/frames';
import { usageError } from '../arguments.ts';
import { confirmByTyping } from '../confirmation.ts';
import type { Context } from '../context.ts';
import { datastoreOf, datastoresOf } from '../datastore-target.ts';
import { openNamed } from '../input-file.ts';
import { untilInterrupted } from '../interruption.ts';
import { formatBytes, formatCount, formatSize, formatTable } from '../output.ts';
import { joinJob } from '../terminal.ts';
import { answerTo, outputOf, saveWhole } from '../transfer.ts';
import { addCommand, type Parent } from './command.ts';
import { addPgBackupCommands } from './pg-backup.ts';
import { addPgCredentialsCommands } from './pg-credentials.ts';
import { addPgHistoryCommands } from './pg-history.ts';
import { attach } from './run.ts';

type Target = { resource?: string };
const resource = ['--resource <name>', 'of several that the app has: the name or the id'] as const;

/** The controller takes its time, and says so itself. */
const askMs = 40_000;
const beginMs = 90_000;

export function addPostgresCommands(parent: Parent): void {
  const pg = addCommand<Target>(parent, {
    name: 'pg',
    summary: "an app's own PostgreSQL: its members, who of them is primary, and how much is in it",
    options: { resource },
    examples: ['flynn resource add postgres -a shop   # gives it one', 'flynn pg -a shop', 'flynn pg psql -a shop'],
    run: showAll,
  });
  addCommand<Target>(parent, { under: pg, name: 'info', summary: 'the same', options: { resource }, run: showAll });
  addPsql(parent, pg);
  addDump(parent, pg);
  addRestore(parent, pg);
  addSwitchover(parent, pg);
  addPgCredentialsCommands(parent, pg);
  addPgBackupCommands(parent, pg);
  addPgHistoryCommands(parent, pg);
}

function addPsql(parent: Parent, pg: Command): void {
  addCommand<Target & { superuser?: boolean; sql: string[] }>(parent, {
    under: pg,
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
      const { io } = context;
      const client = await context.client();
      const app = (await datastoreOf(context, named)).id;
      const isTerminal = io.stdin.isTTY === true && io.stdout.isTTY === true;
      const term = isTerminal ? io.env['TERM'] : undefined;
      const job = await context.progress('starting', () =>
        client.call(datastores.console, {
          params: { app },
          body: {
            args: [...sql.flatMap((text) => ['--command', text]), ...args],
            tty: isTerminal,
            isSuperuser: superuser,
            ...(term === undefined ? {} : { term }),
          },
        }),
      );
      return joinJob(io, await attach(context, { app, job, isTerminal }), { isTerminal });
    },
  });
}

function addDump(parent: Parent, pg: Command): void {
  addCommand<Target & { output?: string }>(parent, {
    under: pg,
    name: 'dump',
    summary: 'all that is in the database as one file, in the format of pg_dump; it goes on running meanwhile',
    options: { resource, output: ['-o, --output <file>', 'the file, - for standard output; else NAME-TIME.dump'] },
    examples: ['flynn pg dump -a shop', 'flynn pg dump -a shop -o - | pg_restore --list'],
    async run(context, { resource: named, output }) {
      const client = await context.client();
      const { id, name } = await datastoreOf(context, named);
      let bytes = 0;
      const open = async (limits: { signal?: AbortSignal } = {}) => {
        const params = { app: id };
        const socket = await client.upgrade(datastores.dump, { params }, { timeoutMs: beginMs, ...limits });
        socket.write(encodeFrame({ kind: 'stdin-end' }));
        return counted(outputOf(socket), (more) => (bytes += more));
      };
      if (output === '-') return pipeline(await open(), context.io.stdout, { end: false });
      const time = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '');
      const file = resolve(context.io.cwd, output ?? `${name}-${time}Z.dump`);
      await context.progress(
        () => `dumping ${name}: ${formatSize(bytes)}`,
        () =>
          untilInterrupted(context.io, 'stopped: no file was written', async (signal) =>
            saveWhole(file, () => open({ signal }), { signal }),
          ),
      );
      context.show({ file, sizeBytes: bytes }, () => `${file}: all of ${name}, ${formatSize(bytes)}`);
    },
  });
}

async function* counted(chunks: AsyncIterable<Buffer>, onBytes: (bytes: number) => void): AsyncGenerator<Buffer> {
  for await (const chunk of chunks) {
    onBytes(chunk.length);
    yield chunk;
  }
}

function addRestore(parent: Parent, pg: Command): void {
  addCommand<Target & { yes?: boolean }>(parent, {
    under: pg,
    name: 'restore',
    summary: 'put a dump, or SQL, in the place of all that is in the database; where that fails nothing changes',
    arguments: [['<file>', 'what "flynn pg dump" or pg_dump wrote, - for standard input']],
    options: { resource, yes: ['-y, --yes', 'do not ask'] },
    examples: [
      'flynn pg restore shop.dump -a shop',
      'pg_dump --format custom --no-owner --no-acl OLD | flynn pg restore - -y -a shop',
    ],
    async run(context, { resource: named, yes = false }, [path = '']) {
      const client = await context.client();
      const { id, name } = await datastoreOf(context, named);
      const from = path === '-' ? 'standard input' : path;
      const doing = `replacing all that is in ${name} by ${from}`;
      if (!yes) {
        await confirmByTyping(context.io, { doing, word: name, called: 'its name', kept: 'nothing was replaced' });
      }
      const input = await openNamed(context.io, path);
      let bytes = 0;
      const text = await context.progress(
        () => `restoring ${name}: ${formatSize(bytes)}`,
        () =>
          untilInterrupted(context.io, `stopped: ${name} is as it was`, async (signal) => {
            const limits = { timeoutMs: beginMs, signal };
            const socket = await client.upgrade(datastores.import, { params: { app: id } }, limits);
            const onAbort = (): void => void socket.destroy();
            signal.addEventListener('abort', onAbort, { once: true });
            try {
              return await answerTo(socket, input, (more) => (bytes += more));
            } catch (error) {
              signal.throwIfAborted();
              throw unchanged(name, error);
            } finally {
              signal.removeEventListener('abort', onAbort);
              input.destroy();
            }
          }),
      );
      const replaced = replacedSchema.parse(JSON.parse(text));
      context.show(
        replaced,
        () =>
          `Restored ${name} from ${from}: ${contentText(replaced.after)}, in the place of ${contentText(replaced.before)}.`,
      );
    },
  });
}

/** It is known to be as it was where its program says that it failed; the connection may have ended a moment after it was done. */
function unchanged(name: string, error: unknown): FlynnError {
  const code = error instanceof FlynnError ? error.code : 'internal';
  const state =
    code === 'unavailable'
      ? `${name} is as it was, unless all was through: "flynn pg -a ${name}" tells its size`
      : `${name} is as it was`;
  return new FlynnError(code, `${messageOf(error)}\n  ${state}`, { cause: error });
}

function contentText({ tables, sizeBytes }: { tables: number; sizeBytes: number }): string {
  return `${formatCount(tables, 'table')}, ${formatSize(sizeBytes)}`;
}

function addSwitchover(parent: Parent, pg: Command): void {
  const declaration = {
    under: pg,
    options: { resource, to: ['--to <host>', 'the host whose member is to be; else the one that has most'] },
    async run(context: Context, { resource: named, to }: Target & { to?: string }) {
      const client = await context.client();
      const { id, name } = await datastoreOf(context, named);
      const body = to === undefined ? {} : { to };
      const moved = await context.progress(`handing ${name} over`, () =>
        client.call(datastores.switchover, { params: { app: id }, body }, { timeoutMs: askMs }),
      );
      context.show(
        moved,
        () =>
          `The primary of ${name} is on ${moved.to}${moved.from === undefined ? '' : `, and was on ${moved.from}`}.`,
      );
    },
  } as const;
  addCommand<Target & { to?: string }>(parent, {
    ...declaration,
    name: 'switchover',
    alias: 'failover',
    summary: 'have another member be the primary: a second or two without writes',
  });
}

async function showAll(context: Context, { resource: named }: Target): Promise<number> {
  const client = await context.client();
  const own = await datastoresOf(context, named);
  const found = await context.progress('asking the members', () =>
    Promise.all(own.map(({ id }) => client.call(datastores.get, { params: { app: id } }, { timeoutMs: askMs }))),
  );
  context.show(found, () => found.map(textOf).join('\n'));
  for (const { app, problem } of found) if (problem !== undefined) context.tell(`flynn: ${app.name}: ${problem}`);
  return found.some(({ problem }) => problem !== undefined) ? 1 : 0;
}

function textOf({ app, resourceId, kind, database, memoryBytes, members }: DatastoreView): string {
  const size =
    database === undefined
      ? 'not known'
      : `${formatSize(database.sizeBytes)}, ${database.connections} of ${database.maxConnections} connections`;
  return [
    `Name:      ${app.name} (resource ${resourceId})`,
    `Version:   ${kind} ${database?.version ?? 'not known'}`,
    `Database:  ${size}`,
    `Memory:    ${formatBytes(memoryBytes)} for each member\n`,
    formatTable(['HOST', 'ROLE', 'STATE', 'LAG', 'VOLUME', 'JOB'], members.map(rowOf)),
  ].join('\n');
}

function rowOf({
  host,
  address,
  role,
  isSynchronous,
  state,
  lagBytes,
  volumeBytes,
  job,
}: Member): (string | undefined)[] {
  return [
    host ?? (address === undefined ? undefined : `away (${address})`),
    isSynchronous ? 'replica,sync' : role,
    state,
    lagBytes === undefined ? undefined : formatSize(lagBytes),
    volumeBytes === undefined ? undefined : formatSize(volumeBytes),
    job,
  ];
}
