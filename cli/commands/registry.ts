import { platform } from '@flynn/controller/platform/api';
import { loginsNotKept } from '@flynn/controller/runner-env/kept-logins';
import { loginsSchema } from '@flynn/controller/runner-env/settings';
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { usageError } from '../arguments.ts';
import type { z } from 'zod';
import { Context } from '../context.ts';
import { newestRelease } from '../deployments/next-release.ts';
import { formatTable } from '../output.ts';
import { changeRunnerEnv, everyRunner, findRunnerEnv } from '../runner-env.ts';
import { readSecret } from '../secret-input.ts';
import { addCommand, type Parent } from './command.ts';

/** Only runners fetch from registries: the logins are theirs, and no build gets to see them. */
const loginsName = 'FLYNN_REGISTRY_LOGINS';
/** Whose variables held them before runners had variables of their own; they count as long as there are no others. */
const runnerApp = 'runner';
type Logins = z.output<typeof loginsSchema>;

const registryArgument = ['<registry>', 'as images are named with it: registry.example.com, 10.0.0.5:5000'] as const;

export function addRegistryCommands(parent: Parent): void {
  const registry = addCommand(parent, {
    name: 'registry',
    summary: 'registries that "flynn deploy --image" fetches from, and as whom',
    lists: true,
    async run(context) {
      const logins = loginsOf(await findRunnerEnv(context, everyRunner)) ?? (await originalLogins(context));
      const shown = Object.entries(logins).map(([name, { username }]) => ({ registry: name, username }));
      context.show(shown, () =>
        formatTable(
          ['REGISTRY', 'USER'],
          shown.map((one) => [one.registry, one.username]),
        ),
      );
    },
  });

  addCommand<{ username?: string }>(parent, {
    under: registry,
    name: 'login',
    summary: 'keep a login for a registry; the password is read from standard input',
    arguments: [registryArgument],
    options: { username: ['-u, --username <name>', 'who logs in'] },
    async run(context, { username }, [name = '']) {
      if (!/^[A-Za-z0-9.-]+(?::\d{1,5})?$/.test(name)) {
        throw new FlynnError('invalid', `"${name}" is no registry: a host and perhaps a port, without a scheme`);
      }
      // Before the password is read: it is not to be sent where it would not be taken.
      await checkKept(context, name);
      if (username === undefined) throw usageError('who logs in? --username NAME');
      const password = await readSecret(context.io, `the password of ${username} for ${name}`);
      if (password === '') {
        throw new FlynnError('invalid', 'there is no password on standard input: flynn registry login … < file');
      }
      await changeLogins(context, (before) => ({ ...before, [name]: { username, password } }));
    },
  });

  addCommand(parent, {
    under: registry,
    name: 'logout',
    summary: 'forget the login for a registry',
    arguments: [registryArgument],
    async run(context, _options, [name = '']) {
      await changeLogins(context, (before) => {
        if (before[name] === undefined) throw new FlynnError('not_found', `there is no login for ${name}`);
        return Object.fromEntries(Object.entries(before).filter(([other]) => other !== name));
      });
    },
  });
}

async function checkKept(context: Context, registry: string): Promise<void> {
  const { keepsRegistryLogins } = await (await context.client()).call(platform.cluster, {});
  if (!keepsRegistryLogins) throw loginsNotKept([registry]);
}

async function changeLogins(context: Context, change: (before: Logins) => Logins): Promise<void> {
  const original = await originalLogins(context);
  let logins: Logins = {};
  await changeRunnerEnv(context, everyRunner, (before) => {
    logins = change(loginsOf(before) ?? original);
    return { [loginsName]: JSON.stringify(logins) };
  });
  const names = Object.keys(logins);
  context.show({ registries: names }, () =>
    names.length === 0 ? 'runners have no login for any registry' : `runners have logins for ${names.join(', ')}`,
  );
}

async function originalLogins(context: Context): Promise<Logins> {
  await using runner = new Context(context.io, { ...context.options, app: runnerApp });
  return loginsOf((await ifFound(newestRelease(runner)))?.env ?? {}) ?? {};
}

function loginsOf(env: Readonly<Record<string, string>>): Logins | undefined {
  const told = env[loginsName];
  if (told === undefined || told === '') return undefined;
  try {
    return loginsSchema.parse(JSON.parse(told));
  } catch {
    throw new FlynnError(
      'invalid',
      `${loginsName} is not as this command writes it: flynn runner env unset ${loginsName}`,
    );
  }
}
