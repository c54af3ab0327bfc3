import { FlynnError } from '@flynn/kit/errors';
import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { Context } from '../context.ts';
import { makeNextRelease, newestRelease } from '../next-release.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

/** Only the runner fetches from registries: it has the logins, in its own environment, which only admins read. */
const runnerApp = 'runner';
const loginsName = 'FLYNN_REGISTRY_LOGINS';
const loginsSchema = z.record(z.string(), z.object({ username: z.string(), password: z.string() }));
type Logins = z.output<typeof loginsSchema>;

const registryArgument = ['<registry>', 'as images are named with it: registry.example.com, 10.0.0.5:5000'] as const;

export function addRegistryCommands(parent: Parent): void {
  const registry = addCommand(parent, {
    name: 'registry',
    summary: 'registries that "flynn deploy --image" fetches from, and as whom',
    lists: true,
    async run(context) {
      await withRunner(context, async (runner) => {
        const rows = Object.entries(loginsOf((await newestRelease(runner))?.env ?? {}));
        const shown = rows.map(([name, { username }]) => ({ registry: name, username }));
        context.show(shown, () =>
          formatTable(
            ['REGISTRY', 'USER'],
            shown.map((one) => [one.registry, one.username]),
          ),
        );
      });
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
      if (username === undefined) throw new FlynnError('invalid', 'who logs in? --username NAME');
      const password = (await text(context.io.stdin)).replace(/\r?\n$/, '');
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

async function withRunner(context: Context, work: (runner: Context) => Promise<void>): Promise<void> {
  await using runner = new Context(context.io, { ...context.options, app: runnerApp });
  await work(runner);
}

async function changeLogins(context: Context, change: (before: Logins) => Logins): Promise<void> {
  await withRunner(context, async (runner) => {
    const before = await newestRelease(runner);
    const logins = change(loginsOf(before?.env ?? {}));
    await makeNextRelease(runner, before, { env: { ...before?.env, [loginsName]: JSON.stringify(logins) } });
  });
}

function loginsOf(env: Readonly<Record<string, string>>): Logins {
  const told = env[loginsName];
  if (told === undefined || told === '') return {};
  try {
    return loginsSchema.parse(JSON.parse(told));
  } catch {
    throw new FlynnError(
      'invalid',
      `${loginsName} of the app ${runnerApp} is not as this command writes it: unset it first`,
    );
  }
}
