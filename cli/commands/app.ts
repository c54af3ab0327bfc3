import { apps, releases } from '@flynn/controller/api';
import { commandOf } from '@flynn/controller/datastores/kinds';
import { routing } from '@flynn/controller/routes/api';
import type { RouteView } from '@flynn/controller/routes/api';
import { httpUrlOf } from '@flynn/controller/routes/url';
import { FlynnError, asFlynnError } from '@flynn/kit/errors';
import type { Cluster } from '../clusters/clusters.ts';
import { removeApp, textOfRemoved } from '../apps/removal.ts';
import { parseWhole, usageError } from '../arguments.ts';
import { confirmByTyping } from '../confirmation.ts';
import { datastoresGoingWith } from '../datastores/target.ts';
import { isOfAppAlone, listRemotes, remoteUrl, removeRemote } from '../git.ts';
import { formatAge, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';
import { deleteObject } from './get.ts';
import { noteUnasked } from './volume.ts';
import { addAppRemote, plannedRemote, type RemoteOptions, remoteOptions } from './remote.ts';

export function urlsOf(routes: readonly RouteView[], cluster: Cluster): string[] {
  return routes.map((route) => {
    if (route.type === 'http') return httpUrlOf(route, cluster);
    const { serverName } = route.tcp;
    return serverName === undefined
      ? `tcp://${cluster.domain}:${route.port ?? ''}`
      : `tls://${serverName}:${route.port ?? ''}`;
  });
}

export function addAppCommands(parent: Parent): void {
  addCommand<RemoteOptions>(parent, {
    name: 'create',
    summary: 'create an app, and a git remote for it here',
    arguments: [['[name]', 'made up when left out']],
    options: remoteOptions,
    async run(context, options, [name]) {
      const cluster = await context.cluster();
      const remote = await plannedRemote(context, options);
      const client = await context.client();
      const app = await client.call(apps.create, { body: name === undefined ? {} : { name } });
      const url = remoteUrl(cluster.gitUrl, app.name);
      if (remote !== undefined) {
        await addAppRemote(context, app.name, options).catch((error: unknown) => {
          const { code, message } = asFlynnError(error);
          const next = `${app.name} was created none the less: "flynn remote add -a ${app.name}" adds the remote`;
          throw new FlynnError(code, `${message}\n  ${next}`, { cause: error });
        });
      }
      const where = remote === undefined ? `; push it to ${url}` : ` with the git remote "${remote}"`;
      context.show(app, () => `Created ${app.name}${where}`);
    },
  });

  addCommand<{ yes?: boolean; volumes?: boolean; wait: boolean; timeout: string }>(parent, {
    name: 'delete',
    summary: 'delete an app with everything it has; with a kind and a name that object',
    arguments: [
      ['[kind]', 'else: the app'],
      ['[name]', 'of the object'],
    ],
    options: {
      yes: ['-y, --yes', 'do not ask'],
      volumes: ['--volumes', 'of an app: what its jobs keep on volumes, too'],
      wait: ['-n, --no-wait', 'of an object: do not wait until it is gone'],
      timeout: ['--timeout <seconds>', 'how long to wait until it is gone', '120'],
    },
    async run(context, options, [kind, object]) {
      const isApp = kind === undefined || ['app', 'apps', 'App'].includes(kind);
      if (!isApp && options.volumes) throw usageError('--volumes is for apps: nothing else has them');
      const deadlineMs = 1_000 * parseWhole(options.timeout, { what: 'a number of seconds', min: 1, max: 86_400 });
      if (!isApp) return deleteObject(context, [kind, object], { isWaitedFor: options.wait, deadlineMs });
      const name = object ?? (await context.appName());
      const client = await context.client();
      const app = await client.call(apps.get, { params: { app: name } });
      const databases = await datastoresGoingWith(context, app);
      const along = [
        ...(options.volumes ? ['what is on its volumes'] : []),
        ...databases.map((database) => `its database ${database} and the backups of that`),
      ];
      const doing = `deleting ${app.name}${along.length === 0 ? '' : ` with ${along.join(', ')}`}`;
      if (!options.yes) {
        await confirmByTyping(context.io, { doing, word: app.name, called: 'its name', kept: 'nothing was deleted' });
      }
      const removal = { volumes: options.volumes === true, deadlineMs };
      const removed = await context.progress(doing, () => removeApp(client, app, removal));
      const cluster = await context.cluster();
      for (const remote of await listRemotes(context.io)) {
        // One that is also where the code comes from, or goes to, stays.
        if (isOfAppAlone(remote, cluster.gitUrl, app.name)) await removeRemote(context.io, remote.name);
      }
      context.show(removed, () => textOfRemoved(app.name, removed));
      noteUnasked(context, removed.left?.unasked ?? []);
    },
  });

  addCommand<{ all?: boolean }>(parent, {
    name: 'apps',
    summary: 'the apps',
    options: { all: ['--all', "the platform's own too"] },
    async run(context, options) {
      const client = await context.client();
      const found = (await client.call(apps.list, {})).filter((app) => options.all || !app.isSystem);
      context.show(found, () =>
        formatTable(
          ['NAME', 'ID', 'CREATED', 'PLATFORM', 'DATASTORE'],
          found.map((app) => [
            app.name,
            app.id,
            formatAge(app.createdAt, Date.now()),
            app.isSystem ? 'yes' : 'no',
            app.datastore?.appliance,
          ]),
        ),
      );
    },
  });

  addCommand(parent, {
    name: 'info',
    summary: 'an app: where it answers, where to push, what runs',
    async run(context) {
      const client = await context.client();
      const cluster = await context.cluster();
      const params = { app: await context.appName() };
      const app = await client.call(apps.get, { params });
      const routes = await client.call(routing.list, { params });
      const release =
        app.releaseId === undefined
          ? undefined
          : await client.call(releases.get, { params: { ...params, release: app.releaseId } });
      const info = {
        id: app.id,
        name: app.name,
        urls: urlsOf(routes, cluster),
        gitUrl: remoteUrl(cluster.gitUrl, app.name),
        release: release === undefined ? null : `v${release.version}`,
        commit: release?.meta['git.commit'] ?? null,
        ...(app.datastore === undefined ? {} : { datastore: app.datastore }),
        createdAt: app.createdAt,
      };
      context.show(info, () =>
        [
          `Name:     ${info.name}`,
          `URL:      ${info.urls.join(' ') || '-'}`,
          app.datastore === undefined
            ? `Git:      ${info.gitUrl}`
            : `Is:       ${app.datastore.appliance}, of the resource ${app.datastore.resourceId}; "flynn ${commandOf(app.datastore.appliance)} -a ${info.name}" tells more`,
          `Release:  ${info.release ?? 'none yet: git push flynn main'}${info.commit ? ` (${info.commit.slice(0, 12)})` : ''}`,
          `Created:  ${info.createdAt}`,
        ].join('\n'),
      );
    },
  });
}
