import { apps } from '@flynn/controller/api';
import { drains } from '@flynn/controller/drains/api';
import type { Drain } from '@flynn/controller/model';
import { usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { readNamed } from '../input-file.ts';
import { formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const listing = {
  summary: 'where log lines are sent as well, and how far that is',
  async run(context: Context): Promise<void> {
    const client = await context.client();
    const { app } = context.options;
    const found = await client.call(drains.list, { query: app === undefined ? {} : { app } });
    const names = new Map((await client.call(apps.list, {})).map(({ id, name }) => [id, name]));
    context.show(found, () =>
      formatTable(
        ['DRAIN', 'APP', 'URL', 'SENT', 'FAILED', 'SKIPPED', 'WAITING', 'STATE'],
        found.map(({ id, appId, url, progress }) => [
          id,
          appId === undefined ? '(all)' : names.get(appId),
          url,
          progress?.sent.toString(),
          progress?.failed.toString(),
          progress?.skipped.toString(),
          progress?.waiting.toString(),
          stateOf(progress),
        ]),
      ),
    );
  },
};

function stateOf(progress: Drain['progress']): string {
  if (progress === undefined) return 'unknown: the log aggregator does not answer, or has just heard of it';
  const { error, gaveUp, lost, damaged } = progress;
  if (error !== undefined) return error;
  const told = [
    ...(gaveUp === undefined ? [] : [`gave up ${linesOf(gaveUp.count)}: ${gaveUp.why}`]),
    ...(lost === undefined ? [] : [`lost ${linesOf(lost.count)}: ${lost.why}`]),
    ...(damaged === undefined ? [] : [`lost ${linesOf(damaged.count)}: ${damaged.why}`]),
  ];
  return told.length === 0 ? 'ok' : told.join('; ');
}

function linesOf(count: number): string {
  return `${count} ${count === 1 ? 'line' : 'lines'}`;
}

export function addDrainCommands(parent: Parent): void {
  const drain = addCommand(parent, { name: 'drain', ...listing });
  addCommand(parent, { under: drain, name: 'list', ...listing });

  addCommand<{ all?: boolean; ca?: string }>(parent, {
    under: drain,
    name: 'add',
    summary: "send an app's log lines elsewhere as well, from now on",
    arguments: [['<url>', 'syslog+tcp://HOST:PORT, syslog+tls://HOST:PORT or https://HOST/PATH']],
    options: {
      all: ['--all', 'of all apps, the platform’s own included'],
      ca: ['--ca <file>', 'trust this authority behind TLS (a certificate as PEM)'],
    },
    async run(context, options, [url = '']) {
      if (options.all === true && context.options.app !== undefined) {
        throw usageError('say either -a APP or --all');
      }
      const ca = options.ca === undefined ? {} : { ca: await readNamed(context.io, options.ca) };
      const app = options.all === true ? undefined : await context.appName('--all for all of them');
      const client = await context.client();
      const added = await client.call(drains.create, { body: { url, ...ca, ...(app === undefined ? {} : { app }) } });
      const whose = app === undefined ? 'all apps' : app;
      context.show(added, () => `lines of ${whose} go to ${added.url} from now on (drain ${added.id})`);
    },
  });

  addCommand(parent, {
    under: drain,
    name: 'remove',
    summary: 'send no more',
    arguments: [['<drain>', 'as "flynn drain" shows it']],
    async run(context, _options, [id = '']) {
      const client = await context.client();
      await client.call(drains.remove, { params: { drain: id } });
      context.show({ removed: id }, () => `drain ${id} removed`);
    },
  });
}
