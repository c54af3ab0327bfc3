import { routing } from '@flynn/controller/routes/api';
import type { Route } from '@flynn/controller/model';
import type { Context } from '../context.ts';
import { readNamed } from '../input-file.ts';
import { formatCount } from '../output.ts';
import { awaitRouters } from '../routes/reach.ts';
import { addCommand, type Parent } from './command.ts';

const routeOption = ['--route <id>', 'only this one, else all http routes of the app'] as const;

export function addMaintenanceCommands(parent: Parent): void {
  const maintenance = addCommand(parent, {
    name: 'maintenance',
    summary: 'answer with a page instead of the app, for a while; without more: whether it does',
    async run(context) {
      const client = await context.client();
      const app = await context.appName();
      const all = await client.call(routing.list, { params: { app } });
      const held = all.filter(({ http }) => http.maintenance !== undefined);
      tell(
        context,
        app,
        held,
        held.length === 0 ? 'in maintenance' : 'in maintenance; "flynn maintenance off" ends it',
      );
    },
  });

  addCommand<{ allow: string[]; page?: string; route?: string }>(parent, {
    under: maintenance,
    name: 'on',
    summary: 'every request is answered 503 with the maintenance page',
    options: {
      allow: ['--allow <network>', 'let these clients through: an address or network, several times', []],
      page: ['--page <file>', 'HTML to answer with, - for standard input'],
      route: routeOption,
    },
    examples: ['flynn maintenance on', 'flynn maintenance on --allow 203.0.113.0/24 --page soon.html'],
    async run(context, { allow, page: file, route }) {
      const page = file === undefined ? undefined : await readNamed(context.io, file);
      const client = await context.client();
      const app = await context.appName();
      const pages = page === undefined ? {} : { pages: { maintenance: page } };
      const changed =
        route === undefined
          ? await client.call(routing.beginMaintenance, {
              params: { app },
              body: { allow, ...(page === undefined ? {} : { page }) },
            })
          : [
              await client.call(routing.update, {
                params: { app, route },
                body: { http: { maintenance: { allow }, ...pages } },
              }),
            ];
      await awaitRouters(context, changed);
      tell(context, app, changed, 'in maintenance; "flynn maintenance off" ends it');
    },
  });

  addCommand<{ route?: string }>(parent, {
    under: maintenance,
    name: 'off',
    summary: 'requests reach the app again',
    options: { route: routeOption },
    async run(context, { route }) {
      const client = await context.client();
      const app = await context.appName();
      const changed =
        route === undefined
          ? await client.call(routing.endMaintenance, { params: { app } })
          : [await client.call(routing.update, { params: { app, route }, body: { http: { maintenance: null } } })];
      await awaitRouters(context, changed);
      tell(context, app, changed, 'answering again');
    },
  });
}

function tell(context: Context, app: string, routes: readonly Route[], how: string): void {
  context.show(routes, () => `${app}: ${formatCount(routes.length, 'route')} ${how}`);
}
