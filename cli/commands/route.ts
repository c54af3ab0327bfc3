import { routing } from '@flynn/controller/api';
import { parseWhole, usageError } from '../arguments.ts';
import { formatTable } from '../output.ts';
import { urlsOf } from './app.ts';
import { addCertificateCommands } from './route-cert.ts';
import { addCommand, type Parent, withCommonOptions } from './command.ts';

export function addRouteCommands(parent: Parent): void {
  const route = addCommand(parent, {
    name: 'route',
    summary: "an app's routes",
    async run(context) {
      const client = await context.client();
      const cluster = await context.cluster();
      const found = await client.call(routing.list, { params: { app: await context.appName() } });
      context.show(found, () =>
        formatTable(
          ['ROUTE', 'SERVICE', 'ID'],
          found.map((one) => [urlsOf([one], cluster)[0], one.service, one.id]),
        ),
      );
    },
  });
  addCertificateCommands(parent, route);
  const add = withCommonOptions(route.command('add').description('add a route'));

  addCommand<{ service?: string }>(parent, {
    under: add,
    name: 'http',
    summary: 'answer for a host name, and a path of it',
    arguments: [['<domain>', 'example.com, *.example.com or example.com/path']],
    options: { service: ['-s, --service <service>', 'the service that answers (else NAME-web)'] },
    async run(context, options, [target = '']) {
      const [, domain, path = '/'] = /^(?:https?:\/\/)?([^/]+)(\/.*)?$/.exec(target) ?? [];
      if (domain === undefined) {
        throw usageError(`"${target}" is no host name: write example.com or example.com/path`);
      }
      const client = await context.client();
      const added = await client.call(routing.create, {
        params: { app: await context.appName() },
        body: { type: 'http', domain, path, ...(options.service === undefined ? {} : { service: options.service }) },
      });
      const cluster = await context.cluster();
      const isOurs = domain === cluster.domain || domain.endsWith(`.${cluster.domain}`);
      const note = isOurs ? '' : `; let the DNS of ${domain} point to the cluster`;
      context.show(added, () => `${urlsOf([added], cluster)[0]} added${note}`);
    },
  });

  addCommand<{ service?: string; port?: string }>(parent, {
    under: add,
    name: 'tcp',
    summary: 'pass a port on to a service',
    options: {
      port: ['-p, --port <port>', 'the port (else a free one)'],
      service: ['-s, --service <service>', 'the service that answers (else NAME-web)'],
    },
    async run(context, options) {
      const port =
        options.port === undefined ? undefined : parseWhole(options.port, { what: 'a port', min: 1, max: 65_535 });
      const client = await context.client();
      const added = await client.call(routing.create, {
        params: { app: await context.appName() },
        body: {
          type: 'tcp',
          ...(port === undefined ? {} : { port }),
          ...(options.service === undefined ? {} : { service: options.service }),
        },
      });
      context.show(added, () => `port ${added.port} now reaches ${added.service}`);
    },
  });

  addCommand(parent, {
    under: route,
    name: 'remove',
    summary: 'take a route back',
    arguments: [['<id>', 'as "flynn route" shows it']],
    async run(context, _options, [id = '']) {
      const client = await context.client();
      await client.call(routing.remove, { params: { app: await context.appName(), route: id } });
      context.show({ removed: id }, () => `route ${id} removed`);
    },
  });
}
