/** What there is of each kind of datastore that the platform makes itself: `flynn pg`, `flynn redis`. */
import { resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import type { Command } from 'commander';
import { datastores, replacedSchema } from '@flynn/controller/datastores/api';
import type { DatastoreView, Member, Replaced } from '@flynn/controller/datastores/api';
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { encodeFrame } from '@flynn/kit/frames';
import { confirmByTyping } from '../confirmation.ts';
import type { Context } from '../context.ts';
import type { DatastoreKind } from '../datastores/kinds.ts';
import { datastoreOf, datastoresOf, resource, type Target } from '../datastores/target.ts';
import { openNamed } from '../input-file.ts';
import { untilInterrupted } from '../interruption.ts';
import { runJoined } from '../joined-job.ts';
import { formatBytes, formatCount, formatSize, formatTable } from '../output.ts';
import { answerTo, outputOf, saveWhole } from '../transfer.ts';
import { addCommand, type Parent } from './command.ts';
import { addDatastoreBackupCommands } from './datastore-backup.ts';
import { addDatastoreCredentialsCommands } from './datastore-credentials.ts';

/** The controller takes its time, and says so itself. */
const askMs = 40_000;
const beginMs = 90_000;

/** What a kind says of its own files. */
export type DatastoreWords = Readonly<{
  dump: string;
  dumpExamples: readonly string[];
  restore: string;
  restoreFile: string;
  restoreExamples: readonly string[];
}>;

/** `flynn COMMAND` with all that is below it, but for what `addOwn` adds. */
export function addDatastoreCommands(
  parent: Parent,
  kind: DatastoreKind,
  { words, addOwn }: { words: DatastoreWords; addOwn: (under: Command) => void },
): void {
  const { command: name, appliance, title, console } = kind;
  const run = (context: Context, { resource: named }: Target) => showAll(context, kind, named);
  const under = addCommand<Target>(parent, {
    name,
    summary: `an app's own ${title}: its members, who of them is primary, and how much is in it`,
    options: { resource },
    examples: [
      `flynn resource add ${appliance} -a shop   # gives it one`,
      `flynn ${name} -a shop`,
      `flynn ${name} ${console} -a shop`,
    ],
    run,
  });
  addCommand<Target>(parent, { under, name: 'info', summary: 'the same', options: { resource }, run });
  addOwn(under);
  addDump(parent, under, { kind, words });
  addRestore(parent, under, { kind, words });
  addSwitchover(parent, under, kind);
  addDatastoreCredentialsCommands(parent, under, kind);
  addDatastoreBackupCommands(parent, under, kind);
}

type Declared = Readonly<{ kind: DatastoreKind; words: DatastoreWords }>;

/** Its client in a container of its own; `args`: what that takes. */
export async function startConsole(
  context: Context,
  kind: DatastoreKind,
  { named, args, isSuperuser }: { named: string | undefined; args: readonly string[]; isSuperuser: boolean },
): Promise<number> {
  const { io } = context;
  const client = await context.client();
  const app = (await datastoreOf(context, kind, named)).id;
  const isTerminal = io.stdin.isTTY === true && io.stdout.isTTY === true;
  const term = isTerminal ? io.env['TERM'] : undefined;
  const body = { args: [...args], tty: isTerminal, isSuperuser, ...(term === undefined ? {} : { term }) };
  return runJoined(context, {
    app,
    isTerminal,
    begin: (limits) => client.call(datastores.console, { params: { app }, body }, limits),
  });
}

function addDump(parent: Parent, under: Command, { kind, words }: Declared): void {
  addCommand<Target & { output?: string }>(parent, {
    under,
    name: 'dump',
    summary: `${words.dump}; it goes on running meanwhile`,
    options: {
      resource,
      output: ['-o, --output <file>', `the file, - for standard output; else NAME-TIME.${kind.dumpEnding}`],
    },
    examples: words.dumpExamples,
    async run(context, { resource: named, output }) {
      const client = await context.client();
      const { id, name } = await datastoreOf(context, kind, named);
      let bytes = 0;
      const open = async (limits: { signal?: AbortSignal } = {}) => {
        const params = { app: id };
        const socket = await client.upgrade(datastores.dump, { params }, { timeoutMs: beginMs, ...limits });
        socket.write(encodeFrame({ kind: 'stdin-end' }));
        return counted(outputOf(socket), (more) => (bytes += more));
      };
      if (output === '-') return pipeline(await open(), context.io.stdout, { end: false });
      const time = new Date().toISOString().slice(0, 19).replaceAll(/[-:]/g, '');
      const file = resolve(context.io.cwd, output ?? `${name}-${time}Z.${kind.dumpEnding}`);
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

function addRestore(parent: Parent, under: Command, { kind, words }: Declared): void {
  addCommand<Target & { yes?: boolean }>(parent, {
    under,
    name: 'restore',
    summary: `put ${words.restore} in the place of all that is in it; where that fails nothing changes`,
    arguments: [['<file>', `${words.restoreFile}, - for standard input`]],
    options: { resource, yes: ['-y, --yes', 'do not ask'] },
    examples: words.restoreExamples,
    async run(context, { resource: named, yes = false }, [path = '']) {
      const client = await context.client();
      const { id, name } = await datastoreOf(context, kind, named);
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
          untilInterrupted(context.io, `stopped: ${notKnown(kind, name)}`, async (signal) => {
            const limits = { timeoutMs: beginMs, signal };
            const socket = await client.upgrade(datastores.import, { params: { app: id } }, limits);
            const onAbort = (): void => void socket.destroy();
            signal.addEventListener('abort', onAbort, { once: true });
            try {
              return await answerTo(socket, input, (more) => (bytes += more));
            } catch (error) {
              signal.throwIfAborted();
              throw unchanged(kind, name, error);
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

/** It is known to be as it was where its program says so; the connection may have ended a moment after it was done. */
function unchanged(kind: DatastoreKind, name: string, error: unknown): FlynnError {
  const code = error instanceof FlynnError ? error.code : 'internal';
  const state = code === 'unavailable' || code === 'timeout' ? notKnown(kind, name) : `${name} is as it was`;
  return new FlynnError(code, `${messageOf(error)}\n  ${state}`, { cause: error });
}

function notKnown({ command }: DatastoreKind, name: string): string {
  return `${name} is as it was, unless all was through: "flynn ${command} -a ${name}" tells its size`;
}

function contentText({ tables, keys, sizeBytes }: Replaced['after']): string {
  const counts = [
    ...(tables === undefined ? [] : [formatCount(tables, 'table')]),
    ...(keys === undefined ? [] : [formatCount(keys, 'key')]),
  ];
  return [...counts, formatSize(sizeBytes)].join(', ');
}

function addSwitchover(parent: Parent, under: Command, kind: DatastoreKind): void {
  const declaration = {
    under,
    options: { resource, to: ['--to <host>', 'the host whose member is to be; else the one that has most'] },
    async run(context: Context, { resource: named, to }: Target & { to?: string }) {
      const client = await context.client();
      const { id, name } = await datastoreOf(context, kind, named);
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

async function showAll(context: Context, kind: DatastoreKind, named: string | undefined): Promise<number> {
  const client = await context.client();
  const own = await datastoresOf(context, kind, named);
  const found = await context.progress('asking the members', () =>
    Promise.all(own.map(({ id }) => client.call(datastores.get, { params: { app: id } }, { timeoutMs: askMs }))),
  );
  context.show(found, () => found.map((view) => textOf(view, kind)).join('\n'));
  for (const { app, problem } of found) if (problem !== undefined) context.tell(`flynn: ${app.name}: ${problem}`);
  return found.some(({ problem }) => problem !== undefined) ? 1 : 0;
}

function textOf(
  { app, resourceId, kind, database, memoryBytes, members }: DatastoreView,
  { ready }: DatastoreKind,
): string {
  return [
    `Name:      ${app.name} (resource ${resourceId})`,
    `Version:   ${kind} ${database?.version ?? 'not known'}`,
    `Database:  ${database === undefined ? 'not known' : sizeText(database)}`,
    `Memory:    ${formatBytes(memoryBytes)} for each member\n`,
    formatTable(
      ['HOST', 'ROLE', 'STATE', 'LAG', 'VOLUME', 'JOB'],
      members.map((member) => rowOf(member, ready)),
    ),
  ].join('\n');
}

function sizeText(database: NonNullable<DatastoreView['database']>): string {
  const { sizeBytes, maxBytes, keys, connections, maxConnections } = database;
  return [
    ...(keys === undefined ? [] : [formatCount(keys, 'key')]),
    maxBytes === undefined ? formatSize(sizeBytes) : `${formatSize(sizeBytes)} of ${formatSize(maxBytes)} in memory`,
    `${connections} of ${maxConnections} connections`,
  ].join(', ');
}

function rowOf(
  { host, address, role, isSynchronous, state, lagBytes, volumeBytes, job }: Member,
  ready: string,
): (string | undefined)[] {
  return [
    host ?? (address === undefined ? undefined : `away (${address})`),
    isSynchronous ? ready : role,
    state,
    lagBytes === undefined ? undefined : formatSize(lagBytes),
    volumeBytes === undefined ? undefined : formatSize(volumeBytes),
    job,
  ];
}
