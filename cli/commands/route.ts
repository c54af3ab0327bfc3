import { routing } from '@flynn/controller/routes/api';
import type { Route } from '@flynn/controller/model';
import { parseWhole, usageError } from '../arguments.ts';
import type { Cluster } from '../clusters/clusters.ts';
import { formatTable } from '../output.ts';
import { tellOpenDoors } from '../routes/open-doors.ts';
import { askHash } from '../routes/passwords.ts';
import { awaitRouters } from '../routes/reach.ts';
import { changeOf, optionRows, settings, settingsFor, settingTexts } from '../routes/settings.ts';
import type { Change, SettingOptions } from '../routes/settings.ts';
import { urlsOf } from './app.ts';
import { addCertificateCommands } from './route-cert.ts';
import { addCommand, type Parent, withCommonOptions } from './command.ts';
import { addRouteStatsCommand } from './route-stats.ts';

const idArgument = ['<id>', 'as "flynn route" shows it, or where it is: example.com/path, tcp:3000'] as const;
const serviceOption = ['-s, --service <service>', 'the service that answers (else NAME-web)'] as const;
type Settings = SettingOptions & { service?: string };

export function addRouteCommands(parent: Parent): void {
  const route = addCommand(parent, {
    name: 'route',
    summary: "an app's routes",
    lists: true,
    async run(context) {
      const client = await context.client();
      const cluster = await context.cluster();
      const found = await client.call(routing.list, { params: { app: await context.appName() } });
      context.show(found, () =>
        formatTable(
          ['ROUTE', 'SERVICE', 'ID', 'SETTINGS'],
          found.map((one) => [urlsOf([one], cluster)[0], one.service, one.id, settingTexts(one).join(', ')]),
        ),
      );
    },
  });
  addCertificateCommands(parent, route);
  const add = withCommonOptions(route.command('add').description('add a route'));

  addCommand<Settings>(parent, {
    under: add,
    name: 'http',
    summary: 'answer for a host name, and a path of it',
    arguments: [['<domain>', 'example.com, *.example.com, example.com/path, or * for whatever no other route has']],
    options: { service: serviceOption, ...optionRows(settingsFor('http'), { isChange: false }) },
    examples: [
      'flynn route add http shop.example.com',
      'flynn route add http shop.example.com/api -s shop-api --strip-path --limit-rate 20/s',
      'flynn route add http shop.example.com --weight v7=95 --weight v8=5 --release-affinity',
    ],
    async run(context, options, [target = '']) {
      const [, domain, path = '/'] = /^(?:https?:\/\/)?([^/]+)(\/.*)?$/.exec(target) ?? [];
      if (domain === undefined) {
        throw usageError(`"${target}" is no host name: write example.com or example.com/path`);
      }
      const change = await changeOf('http', options, context.io);
      const client = await context.client();
      const added = await client.call(routing.create, {
        params: { app: await context.appName() },
        body: { type: 'http', domain, path, ...serviceIn(options), ...change },
      });
      await awaitRouters(context, [added]);
      if (change.http?.access !== undefined) await tellOpenDoors(context, added);
      const cluster = await context.cluster();
      const isOurs = domain === '*' || domain === cluster.domain || domain.endsWith(`.${cluster.domain}`);
      const note = isOurs ? '' : `; let the DNS of ${domain} point to the cluster`;
      context.show(added, () => `${urlsOf([added], cluster)[0]} added${note}`);
    },
  });

  addCommand<Settings & { port?: string }>(parent, {
    under: add,
    name: 'tcp',
    summary: 'pass a port on to a service',
    options: {
      port: ['-p, --port <port>', 'the port (else a free one)'],
      service: serviceOption,
      ...optionRows(settingsFor('tcp'), { isChange: false }),
    },
    examples: [
      'flynn route add tcp -s shop-db --leader',
      'flynn route add tcp -p 6432 -s shop-db --server-name db.example.com --proxy-protocol v2',
    ],
    async run(context, options) {
      const port =
        options.port === undefined ? undefined : parseWhole(options.port, { what: 'a port', min: 1, max: 65_535 });
      const change = await changeOf('tcp', options, context.io);
      const client = await context.client();
      const added = await client.call(routing.create, {
        params: { app: await context.appName() },
        body: { type: 'tcp', ...(port === undefined ? {} : { port }), ...serviceIn(options), ...change },
      });
      await awaitRouters(context, [added]);
      const { serverName } = added.tcp;
      const what = serverName === undefined ? `port ${added.port}` : `${serverName} at port ${added.port}`;
      context.show(added, () => `${what} now reaches ${added.service}`);
    },
  });

  addCommand<Settings & { revision?: string; removeUser: string[] }>(parent, {
    under: route,
    name: 'update',
    summary: 'change how a route answers; what is not named stays, --no-… takes a setting back: --no-limit-body',
    arguments: [idArgument],
    options: {
      service: ['-s, --service <service>', 'the service that answers'],
      removeUser: ['--remove-user <name>', 'this user’s password opens it no longer; several times', []],
      revision: ['--revision <number>', 'only if it has not been changed since, as --json tells it'],
      ...optionRows([...settingsFor('http'), ...settings.filter(({ type }) => type === 'tcp')], { isChange: true }),
    },
    examples: [
      'flynn route update shop.example.com --sticky --timeout-first-byte 2m',
      'flynn route update shop.example.com --no-sticky --no-weight',
      'flynn route update tcp:3000 --idle 1h',
      'flynn route update staging.example.com --user ann',
      'flynn route update staging.example.com --allow 203.0.113.0/24 --access any',
      'flynn route update staging.example.com --no-access',
    ],
    async run(context, options, [id = '']) {
      const client = await context.client();
      const cluster = await context.cluster();
      const params = { app: await context.appName(), route: id };
      const before = await client.call(routing.get, { params });
      const change = withoutUsers(await changeOf(before.type, options, context.io), options.removeUser);
      const service = serviceIn(options);
      if (Object.keys({ ...change, ...service }).length === 0) {
        throw usageError('nothing to change: "flynn help route update" tells what can be');
      }
      const revision =
        options.revision === undefined
          ? {}
          : { revision: parseWhole(options.revision, { what: 'a revision', min: 1, max: Number.MAX_SAFE_INTEGER }) };
      const changed = await client.call(routing.update, { params, body: { ...service, ...change, ...revision } });
      await awaitRouters(context, [changed]);
      if (change.http?.access !== undefined) await tellOpenDoors(context, changed);
      context.show(changed, () => describe(changed, cluster));
    },
  });

  addCommand(parent, {
    under: route,
    name: 'info',
    summary: 'one route with all it is set to',
    arguments: [idArgument],
    async run(context, _options, [id = '']) {
      const client = await context.client();
      const cluster = await context.cluster();
      const found = await client.call(routing.get, { params: { app: await context.appName(), route: id } });
      context.show(found, () => describe(found, cluster));
    },
  });

  addCommand(parent, {
    under: route,
    name: 'password-hash',
    summary: 'make the hash of a password, for a file: asks for it, or reads standard input',
    async run(context) {
      const hash = await askHash(context.io);
      context.show({ hash }, () => hash);
    },
  });

  addRouteStatsCommand(parent, route);

  addCommand(parent, {
    under: route,
    name: 'remove',
    summary: 'take a route back',
    arguments: [idArgument],
    async run(context, _options, [id = '']) {
      const client = await context.client();
      const params = { app: await context.appName(), route: id };
      const removed = await client.call(routing.get, { params });
      await client.call(routing.remove, { params });
      await awaitRouters(context, [{ id: removed.id }]);
      context.show({ removed: id }, () => `route ${id} removed`);
    },
  });
}

/** With these taken away. */
function withoutUsers({ http, tcp }: Change, names: readonly string[]): Change {
  if (names.length === 0) return { ...(http === undefined ? {} : { http }), ...(tcp === undefined ? {} : { tcp }) };
  const { access } = http ?? {};
  if (access === null || access?.users === null) {
    throw usageError('all users are taken away already: leave --remove-user out');
  }
  const users = { ...access?.users, ...Object.fromEntries(names.map((name) => [name, null])) };
  return { http: { ...http, access: { ...access, users } }, ...(tcp === undefined ? {} : { tcp }) };
}

function serviceIn({ service }: { service?: string }): { service?: string } {
  return service === undefined ? {} : { service };
}

function describe(route: Route, cluster: Cluster): string {
  const rows: [string, string][] = [
    ['Route', urlsOf([route], cluster)[0] ?? ''],
    ['ID', route.id],
    ['Service', route.service],
    ['Created', route.createdAt],
  ];
  const [first = 'none', ...others] = settingTexts(route);
  return [
    ...rows.map(([name, text]) => `${`${name}:`.padEnd(10)}${text}`),
    `Settings: ${first}`,
    ...others.map((text) => `          ${text}`),
  ].join('\n');
}
