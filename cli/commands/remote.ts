import { apps } from '@flynn/controller/api';
import { FlynnError } from '@flynn/kit/errors';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import {
  addRemote,
  isRemoteName,
  appOfRemotes,
  isRepository,
  listRemotes,
  type Remote,
  remoteUrl,
  removeRemote,
  trustCluster,
} from '../git.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

export const remoteOptions = {
  remote: ['-r, --remote <remote>', 'the git remote to add; "" for none', 'flynn'],
  yes: ['-y, --yes', 'replace a remote of that name'],
} as const;
export type RemoteOptions = { remote: string; yes?: boolean };

export function addRemoteCommands(parent: Parent): void {
  const remote = addCommand(parent, {
    name: 'remote',
    summary: 'the git remotes here that push to apps',
    async run(context) {
      const { gitUrl } = await context.cluster();
      const found = (await listRemotes(context.io)).flatMap((one) => {
        const app = appOfRemotes([one], gitUrl);
        return app === undefined ? [] : [{ ...one, app }];
      });
      context.show(found, () =>
        formatTable(
          ['REMOTE', 'APP', 'URL'],
          found.map(({ name, app, url }) => [name, app, url]),
        ),
      );
    },
  });

  addCommand<RemoteOptions>(parent, {
    under: remote,
    name: 'add',
    summary: 'a git remote here for an app that is there already, as "create" adds one for a new app',
    arguments: [['[name]', 'the app; else that of -a or $FLYNN_APP']],
    options: { ...remoteOptions, remote: ['-r, --remote <remote>', 'what to call it', 'flynn'] },
    async run(context, options, [name]) {
      if (!(await isRepository(context.io))) {
        throw new FlynnError('invalid', 'this folder is of no git repository\n  "git clone" or "git init" makes one');
      }
      const wanted = name ?? (await context.appName());
      await plannedRemote(context, options);
      const client = await context.client();
      const app = await client.call(apps.get, { params: { app: wanted } });
      const added = await addAppRemote(context, app.name, options);
      context.show(added, () => `Added the git remote "${added.name}" for ${app.name}: git push ${added.name} main`);
    },
  });
}

/** The remote that is to be added; refused before anything is done when it would be in the way. */
export async function plannedRemote(context: Context, options: RemoteOptions): Promise<string | undefined> {
  if (options.remote === '' || !(await isRepository(context.io))) return undefined;
  if (!(await isRemoteName(context.io, options.remote))) {
    throw usageError(`"${options.remote}" is no name for a git remote: letters, digits, "-" and "_" make one`);
  }
  const existing = (await listRemotes(context.io)).find((remote) => remote.name === options.remote);
  if (existing === undefined || options.yes) return options.remote;
  throw new FlynnError(
    'conflict',
    `this repository already has a git remote "${options.remote}" (${existing.url})\n  -y replaces it; -r NAME adds another`,
  );
}

/** And has the repository's ssh know the cluster. */
export async function addAppRemote(context: Context, app: string, options: RemoteOptions): Promise<Remote> {
  const { gitUrl } = await context.cluster();
  const added = { name: options.remote, url: remoteUrl(gitUrl, app) };
  if (options.yes) await removeRemote(context.io, added.name);
  await addRemote(context.io, added);
  await trustCluster(context.io, context.configDirectory);
  return added;
}
