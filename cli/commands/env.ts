import { resolve } from 'node:path';
import { Readable } from 'node:stream';
import { formatEnvFile } from '@flynn/kit/env-file';
import { FlynnError } from '@flynn/kit/errors';
import { assertEnvName, parseAssignments, parseEnvFile, usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { readNamed } from '../input-file.ts';
import { untilInterrupted } from '../interruption.ts';
import { changeRelease, newestRelease } from '../deployments/next-release.ts';
import { formatCount, quoteForShell } from '../output.ts';
import { saveWhole } from '../transfer.ts';
import { addCommand, type Parent } from './command.ts';

export function addEnvCommands(parent: Parent): void {
  const env = addCommand(parent, {
    name: 'env',
    summary: "an app's configuration variables, quoted for a shell",
    async run(context) {
      const values = (await newestRelease(context))?.env ?? {};
      context.show(values, () => assignmentsText(values));
    },
  });

  addCommand<{ file?: string; references?: boolean }>(parent, {
    under: env,
    name: 'set',
    summary: 'set variables, as a new release that is rolled out',
    arguments: [['[assignments...]', 'NAME=VALUE, the value as it is']],
    options: {
      file: ['-f, --file <path>', 'a .env file to read too, - for standard input'],
      references: ['--references', '${NAME} in these values is what that variable holds, now and when it changes'],
    },
    examples: [
      "flynn env set PASSWORD='a$b' USER=ada",
      "flynn env set --references URL='postgres://${USER}:${PASSWORD}@db/shop'",
    ],
    async run(context, options, args) {
      const fromArgs = parseAssignments(args);
      const fromFile = options.file === undefined ? {} : parseEnvFile(await readNamed(context.io, options.file));
      const wanted = { ...fromFile, ...fromArgs };
      if (Object.keys(wanted).length === 0) throw usageError('nothing to set: write NAME=VALUE, or --file PATH');
      const { references = false } = options;
      await changeEnv(context, (before) => withValues(before, wanted, references));
    },
  });

  addCommand(parent, {
    under: env,
    name: 'unset',
    summary: 'remove variables, as a new release that is rolled out',
    arguments: [['<names...>', 'the variables']],
    async run(context, _options, names) {
      for (const name of names) assertEnvName(name);
      await changeEnv(context, (before) => {
        const missing = names.filter((name) => !Object.hasOwn(before.env, name));
        if (missing.length > 0) throw notSet(missing);
        return { env: without(before.env, names), references: without(before.references, names) };
      });
    },
  });

  addCommand(parent, {
    under: env,
    name: 'get',
    summary: "a variable's value, every byte as it is",
    arguments: [['<name>', 'the variable']],
    async run(context, _options, [name = '']) {
      assertEnvName(name);
      const { env = {} } = (await newestRelease(context)) ?? {};
      const value = Object.hasOwn(env, name) ? env[name] : undefined;
      if (value === undefined) throw notSet([name]);
      if (context.options.json) context.print(JSON.stringify(value));
      else context.io.stdout.write(context.io.stdout.isTTY ? `${value}\n` : value);
    },
  });

  addCommand<{ exact?: boolean }>(parent, {
    under: env,
    name: 'import',
    summary: 'set the variables of a .env file, as a new release that is rolled out',
    arguments: [['<path>', 'the file, - for standard input']],
    options: { exact: ['--exact', 'remove what is not in the file'] },
    async run(context, { exact = false }, [path = '']) {
      const wanted = parseEnvFile(await readNamed(context.io, path));
      for (const name of Object.keys(wanted)) assertEnvName(name);
      if (Object.keys(wanted).length === 0) throw usageError(`${path} sets nothing`);
      await changeEnv(context, (before) => withValues(exact ? nothing : before, wanted, false));
    },
  });

  addCommand(parent, {
    under: env,
    name: 'export',
    summary: 'all variables as a .env file that "flynn env import" reads again',
    arguments: [['[path]', 'where to; else standard output']],
    async run(context, _options, [path]) {
      const values = (await newestRelease(context))?.env ?? {};
      if (path === undefined) {
        if (context.options.json) context.show(values, () => '');
        else context.pass(formatEnvFile(values));
        return;
      }
      const file = resolve(context.io.cwd, path);
      await untilInterrupted(context.io, 'stopped: no file was written', (signal) =>
        saveWhole(file, () => Readable.from([formatEnvFile(values)]), { signal }),
      );
      context.show(values, () => `${path}: ${formatCount(Object.keys(values).length, 'variable')}`);
    },
  });

  addCommand(parent, {
    under: env,
    name: 'references',
    summary: 'the variables that refer to others, as they were set',
    async run(context) {
      const references = (await newestRelease(context))?.references ?? {};
      context.show(references, () => assignmentsText(references));
    },
  });
}

function notSet(names: readonly string[]): FlynnError {
  return new FlynnError('not_found', `not set: ${names.join(', ')}\n  "flynn env" lists what is`);
}

type Values = Readonly<Record<string, string>>;
/** `references`: those of them that refer to others, as they were written. */
type Variables = Readonly<{ env: Values; references: Values }>;

const nothing: Variables = { env: {}, references: {} };

/** What was a reference before and is set to a value is none any more. */
function withValues(before: Variables, wanted: Values, areReferences: boolean): Variables {
  const references = without(before.references, Object.keys(wanted));
  // What they come to the controller works out.
  if (areReferences) return { env: before.env, references: { ...references, ...wanted } };
  return { env: { ...before.env, ...wanted }, references };
}

function without(values: Values, names: readonly string[]): Values {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !names.includes(name)));
}

async function changeEnv(context: Context, change: (before: Variables) => Variables): Promise<void> {
  await changeRelease(
    context,
    (release) => {
      const before = { env: release?.env ?? {}, references: release?.references ?? {} };
      const { env, references } = change(before);
      return isSame(before.env, env) && isSame(before.references, references) ? undefined : { env, references };
    },
    { unchanged: 'nothing changes: the values are already set' },
  );
}

function assignmentsText(values: Values): string {
  return Object.entries(values)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `${name}=${quoteForShell(value)}\n`)
    .join('');
}

function isSame(a: Values, b: Values): boolean {
  const names = new Set([...Object.keys(a), ...Object.keys(b)]);
  return [...names].every((name) => a[name] === b[name]);
}
