import type { Command } from 'commander';
import { envFor } from '@flynn/controller/runner-env/env-for';
import { registrySettings } from '@flynn/controller/runner-env/settings';
import { FlynnError } from '@flynn/kit/errors';
import { assertEnvName, parseAssignments, parseEnvFile, usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { readNamed } from '../input-file.ts';
import { quoteForShell } from '../output.ts';
import { changeRunnerEnv, labelsText, listRunnerEnvs, parseLabels, type RunnerEnv } from '../runner-env.ts';
import { addCommand, type Parent } from './command.ts';

const labelsOption = ['-l, --labels <labels>', 'only for runners with these labels, as gpu=yes,zone=a'] as const;

/** Under `flynn runner`. */
export function addRunnerEnvCommands(parent: Parent, runner: Command): void {
  const env = addCommand<{ labels?: string }>(parent, {
    under: runner,
    name: 'env',
    summary: 'variables that every build gets, and every runner: mirrors, proxies, limits of builds',
    options: { labels: ['-l, --labels <labels>', 'what one runner with these labels gets of it, as gpu=yes,zone=a'] },
    lists: true,
    async run(context, { labels }) {
      const all = await listRunnerEnvs(context);
      const runners = parseLabels(labels);
      const told = labels === undefined ? all : [{ name: labelsText(runners), runners, env: envFor(all, runners) }];
      const found = told.filter((one) => Object.keys(one.env).length > 0);
      context.show(
        found.map((one) => ({ ...one, env: toldOf(one.env) })),
        () => found.map(envText).join(''),
      );
    },
  });

  addCommand<{ labels?: string; file?: string }>(parent, {
    under: env,
    name: 'set',
    summary: 'set variables; the next build has them, and no runner is started anew',
    arguments: [['[assignments...]', 'NAME=VALUE, the value as it is']],
    options: { labels: labelsOption, file: ['-f, --file <path>', 'a .env file to read too, - for standard input'] },
    examples: [
      'flynn runner env set GOPROXY=https://proxy.example.com NPM_CONFIG_REGISTRY=https://npm.example.com',
      'flynn runner env set --labels zone=eu FLYNN_DEBIAN_MIRROR=https://debian.example.eu/debian',
    ],
    async run(context, { labels, file }, args) {
      const fromFile = file === undefined ? {} : parseEnvFile(await readNamed(context.io, file));
      const wanted = { ...fromFile, ...parseAssignments(args) };
      if (Object.keys(wanted).length === 0) throw usageError('nothing to set: write NAME=VALUE, or --file PATH');
      await change(context, parseLabels(labels), () => wanted);
    },
  });

  addCommand<{ labels?: string }>(parent, {
    under: env,
    name: 'unset',
    summary: 'remove variables: what a runner was started with holds again',
    arguments: [['<names...>', 'the variables']],
    options: { labels: labelsOption },
    async run(context, { labels }, names) {
      for (const name of names) assertEnvName(name);
      await change(context, parseLabels(labels), (before) => {
        const missing = names.filter((name) => before[name] === undefined);
        if (missing.length > 0) {
          throw new FlynnError('not_found', `not set: ${missing.join(', ')}\n  "flynn runner env" lists what is`);
        }
        return Object.fromEntries(names.map((name) => [name, null]));
      });
    },
  });
}

async function change(
  context: Context,
  labels: Record<string, string>,
  wanted: Parameters<typeof changeRunnerEnv>[2],
): Promise<void> {
  const env = await changeRunnerEnv(context, labels, wanted);
  const whose = Object.keys(labels).length === 0 ? 'every runner' : `runners with ${labelsText(labels)}`;
  const names = Object.keys(env).toSorted();
  context.show({ runners: labels, variables: names }, () =>
    names.length === 0 ? `${whose}: no variables` : `${whose}: ${names.join(', ')}; from the next build on`,
  );
}

/** Passwords of registries are told by nobody: `flynn registry` lists the logins without them. */
function hasPasswords(name: string): boolean {
  return name in registrySettings && name.endsWith('LOGINS');
}

function toldOf(env: RunnerEnv['env']): RunnerEnv['env'] {
  return Object.fromEntries(Object.entries(env).filter(([name]) => !hasPasswords(name)));
}

function envText({ runners, env }: RunnerEnv): string {
  const labels = labelsText(runners);
  const lines = Object.entries(env)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) =>
      hasPasswords(name) ? `# ${name}: "flynn registry" lists them\n` : `${name}=${quoteForShell(value)}\n`,
    );
  return [`# ${labels === '' ? 'every runner' : `runners with ${labels}`}\n`, ...lines].join('');
}
