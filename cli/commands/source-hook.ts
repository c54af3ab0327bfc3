/** `flynn source hook`: where a git service tells of pushes, and what to enter there. */
import { sources } from '@flynn/controller/source/api';
import { hooks } from '@flynn/controller/source/hook/api';
import type { Hook } from '@flynn/controller/source/hook/model';
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { Command } from 'commander';
import { readNamed } from '../input-file.ts';
import { formatAge } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export function addHookCommands(parent: Parent, source: Command): void {
  const hook = addCommand<{ rotate?: boolean; secret?: string }>(parent, {
    under: source,
    name: 'hook',
    summary: 'where GitHub, GitLab, Gitea, Forgejo or Bitbucket tells of pushes, so that they are looked at at once',
    options: {
      rotate: ['--rotate', 'another secret: the one before is good no more'],
      secret: ['--secret <file>', 'a signing token that GitLab has made (whsec_...), instead of one that is made here'],
    },
    async run(context, { rotate = false, secret: file }) {
      const client = await context.client();
      const params = { app: await context.appName() };
      const known = (await client.call(sources.get, { params })).hook;
      const isAsked = rotate || file !== undefined;
      if (known !== undefined && !isAsked) {
        const text = `its secret was shown when it was made: flynn source hook --rotate -a ${params.app} makes another`;
        context.show({ hook: known }, () => hookText(known, [text]));
        return;
      }
      const given = file === undefined ? {} : { secret: (await readNamed(context.io, file)).trim() };
      const body = { isRotation: known !== undefined, ...given };
      const made = await client.call(hooks.make, { params, body });
      const { ca } = await context.cluster();
      const secret = file === undefined ? [`secret      ${made.secret}   (shown once)`] : [];
      context.show(made, () => hookText(made.hook, [...secret, '', ...steps]));
      for (const warning of warningsOf(made.hook, ca !== undefined)) context.tell(`flynn: ${warning}`);
    },
  });

  addCommand(parent, {
    under: hook,
    name: 'off',
    summary: 'take no hooks any more; the repository is looked at now and then as before',
    async run(context) {
      const client = await context.client();
      const params = { app: await context.appName() };
      await client.call(hooks.remove, { params });
      context.show({ removed: true }, () => `${params.app} takes no hooks any more: remove it in the git service, too`);
    },
  });
}

/** What to click where, and which of the two goes into which field. */
const steps = [
  'GitHub      Settings > Webhooks > Add webhook: Payload URL, Content type application/json, Secret; just the push event',
  'GitLab      Settings > Webhooks > Add new webhook: URL, Secret token; Push events',
  'Gitea       Settings > Webhooks > Add webhook > Gitea (or Forgejo): Target URL, POST, application/json, Secret; push events',
  'Bitbucket   Repository settings > Webhooks > Add webhook: URL, Secret; Repository push',
] as const;

function hookText({ url }: Hook, more: readonly string[]): string {
  return [`address     ${url}`, ...more].map((line) => `${line}\n`).join('');
}

function warningsOf({ url }: Hook, isPinned: boolean): string[] {
  if (!url.startsWith('https:')) {
    return [
      `the address is not encrypted, for no certificate is shown for the controller: GitLab would send the secret in clear. ${eitherCommand('up')} on the host that keeps the platform makes one`,
    ];
  }
  if (!isPinned) return [];
  return [
    `git services take certificates of public authorities only, and this one may be the cluster's own: give ${new URL(url).hostname} one of them (flynn route cert, docs/certificates.md), or turn the verification off in the service's hook`,
  ];
}

/** As lines of `flynn source`. */
export function hookRows(hook: Hook, nowMs: number): (readonly [string, string])[] {
  const { url, last, refused } = hook;
  const ago = (at: string) => `${formatAge(at, nowMs)} ago`;
  const came = last === undefined ? 'nothing came yet' : `${last.outcome}: ${last.what}, ${ago(last.at)}`;
  return [
    ['hook', url],
    ['last hook', came],
    ...(refused === undefined
      ? []
      : ([['refused', `${ago(refused.at)}, from ${refused.from}: ${refused.why}`]] as const)),
  ];
}
