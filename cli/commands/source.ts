import { apps } from '@flynn/controller/api';
import { sources } from '@flynn/controller/source/api';
import type { Source } from '@flynn/controller/source/model';
import { FlynnError } from '@flynn/kit/errors';
import { parseDurationMs } from '../arguments.ts';
import type { Context } from '../context.ts';
import { readNamed } from '../input-file.ts';
import { changeRelease } from '../deployments/next-release.ts';
import { formatAge } from '../output.ts';
import { pollUntil } from '../polling.ts';
import { addCommand, type Parent } from './command.ts';
import { addHookCommands, hookRows } from './source-hook.ts';

const lookDeadlineMs = 120_000;

export function addSourceCommands(parent: Parent): void {
  const source = addCommand(parent, {
    name: 'source',
    summary: 'the repository and branch an app follows, and how that goes',
    async run(context) {
      const client = await context.client();
      const found = await client.call(sources.get, { params: { app: await context.appName() } });
      context.show(found, () => sourceText(found));
    },
  });

  addCommand<{ branch?: string; every?: string; deployKey?: string }>(parent, {
    under: source,
    name: 'set',
    summary: 'follow a branch: each new commit of it is built, released and deployed like a push',
    arguments: [['<url>', 'https://HOST/PATH, ssh://USER@HOST/PATH or USER@HOST:PATH']],
    options: {
      branch: ['--branch <name>', 'the branch, main unless said otherwise'],
      every: ['--every <time>', 'how often it is looked at: 1m unless said otherwise'],
      deployKey: ['--deploy-key <file>', 'an SSH private key without a passphrase that may read it'],
    },
    async run(context, options, [url = '']) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const body = {
        url,
        ...(options.branch === undefined ? {} : { branch: options.branch }),
        ...(options.every === undefined ? {} : { everyMs: parseDurationMs(options.every) }),
      };
      // The key first: whoever looks at once has it then.
      if (options.deployKey !== undefined) await setKey(context, options.deployKey);
      const made = await client.call(sources.put, { params, body });
      context.show(made, () => {
        const said = `${params.app} follows ${made.branch} of ${made.url}; "flynn source" tells how that goes`;
        if (made.hook === undefined || made.hook.last !== undefined) return said;
        return `${said}\nIts hook stays: enter ${made.hook.url} there; "flynn source hook --rotate" makes another secret`;
      });
    },
  });

  addCommand<{ again?: boolean }>(parent, {
    under: source,
    name: 'poll',
    summary: 'look for a new commit now',
    options: { again: ['--again', 'build its commit anew, though it was built before'] },
    async run(context, { again = false }) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const before = await client.call(sources.poll, { params, query: { again: again ? 'true' : 'false' } });
      const probe = async () => {
        const now = await client.call(sources.get, { params });
        return isLooked(before, now) ? now : undefined;
      };
      const looked = await context.progress(`looking at ${before.url}`, () =>
        pollUntil(probe, { what: `a look at ${before.url}`, deadlineMs: lookDeadlineMs, intervalMs: 500 }),
      );
      if (looked.error !== undefined) throw new FlynnError('invalid', looked.error);
      const isNew = again || looked.commit !== before.commit;
      context.show(looked, () =>
        isNew
          ? `${shortOf(looked)} is being built: "flynn op log ${looked.push?.operationId ?? ''}" follows it`
          : `${looked.branch} is at ${shortOf(looked)}, as before`,
      );
    },
  });

  addHookCommands(parent, source);

  addCommand(parent, {
    under: source,
    name: 'off',
    summary: 'follow it no more; what runs stays',
    async run(context) {
      const client = await context.client();
      const params = { app: await context.appName() };
      await client.call(sources.remove, { params });
      context.show({ removed: true }, () => `${params.app} follows no repository any more`);
    },
  });
}

/**
 * Whether it was looked at since that was asked for. One that was under way then has not seen what came since: the next is
 * waited for, unless this one found something, which is built first. Pure.
 */
export function isLooked(asked: Source, now: Source): boolean {
  if (now.pollId !== undefined || now.polledAt === asked.polledAt) return false;
  return now.isWanted !== true || now.commit !== asked.commit;
}

/** Where builds look for it too, for submodules and private packages. */
async function setKey(context: Context, path: string): Promise<void> {
  const key = await readNamed(context.io, path);
  const client = await context.client();
  const { name } = await client.call(apps.get, { params: { app: await context.appName() } });
  await changeRelease(
    context,
    (before) => {
      if (before?.env['SSH_CLIENT_KEY'] === key) return undefined;
      context.tell(`flynn: ${name} gets the key as SSH_CLIENT_KEY`);
      return { env: { ...before?.env, SSH_CLIENT_KEY: key } };
    },
    { isStep: true },
  );
}

function sourceText(source: Source): string {
  const { url, branch, everyMs, commit, polledAt, nextAt, pollId, failures, error, push, hook } = source;
  const looked = polledAt === undefined ? 'not yet' : `${formatAge(polledAt, Date.now())} ago`;
  const next = pollId === undefined ? `next at ${nextAt ?? '-'}` : `now (${pollId})`;
  const ended =
    push === undefined ? '' : `${push.kind} ${push.state}${push.error === undefined ? '' : `: ${push.error}`}`;
  const rows: (readonly [string, string])[] = [
    ['repository', url],
    ['branch', `${branch}, every ${everyText(everyMs)}`],
    ['looked', `${looked}, ${next}`],
    ...(commit === undefined
      ? []
      : ([['commit', `${commit.slice(0, 12)}${ended === '' ? '' : ` (${ended})`}`]] as const)),
    ...(error === undefined ? [] : ([['error', `${error} (${failures} in a row)`]] as const)),
    ...(hook === undefined ? [] : hookRows(hook, Date.now())),
  ];
  return rows.map(([name, value]) => `${name.padEnd(11)} ${value}\n`).join('');
}

function shortOf({ commit = '' }: Source): string {
  return commit.slice(0, 8);
}

/** As one writes it. */
function everyText(ms: number): string {
  for (const [unit, unitMs] of [
    ['d', 86_400_000],
    ['h', 3_600_000],
    ['m', 60_000],
  ] as const)
    if (ms % unitMs === 0) return `${ms / unitMs}${unit}`;
  return `${ms / 1_000}s`;
}
