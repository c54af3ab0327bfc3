import { notifications } from '@flynn/controller/notifications/api';
import type { Delivery, Notification } from '@flynn/controller/notifications/api';
import { formats } from '@flynn/controller/notifications/formats';
import { topics } from '@flynn/controller/notifications/message';
import { nearestOf } from '@flynn/kit/config';
import { parseWhole, usageError } from '../arguments.ts';
import type { Context } from '../context.ts';
import { formatCount, formatTable } from '../output.ts';
import { addCommand, type Parent } from './command.ts';

const listing = {
  summary: 'who is told what goes wrong, and whether they can be reached',
  async run(context: Context): Promise<void> {
    const client = await context.client();
    const { app } = context.options;
    const found = await client.call(notifications.list, { query: app === undefined ? {} : { app } });
    context.show(found, () =>
      formatTable(
        ['NAME', 'APP', 'URL', 'FORMAT', 'ON', 'WAITING', 'STATE'],
        found.map(({ name, app: of, url, format, on, waiting, ...rest }) => [
          name,
          of === undefined ? '(cluster)' : of.name,
          url,
          format,
          on.join(','),
          waiting.toString(),
          stateOf(rest),
        ]),
      ),
    );
  },
};

function stateOf({ failing, lost }: Pick<Notification, 'failing' | 'lost'>): string {
  if (failing !== undefined) return `${failing.answer} (since ${failing.since}; tried again at ${failing.nextAt})`;
  if (lost === undefined) return 'ok';
  const answer = lost.answer === undefined ? '' : `: ${lost.answer}`;
  return `${formatCount(lost.count, 'message')} given up at ${lost.at}${answer}`;
}

const everyLimits = { what: 'a number of minutes for --every', min: 1, max: 1_440 } as const;

type AddOptions = {
  on: string[];
  format?: string;
  severity?: string;
  every?: string;
  inside?: boolean;
  all?: boolean;
};

export function addNotificationCommands(parent: Parent): void {
  const notification = addCommand(parent, {
    name: 'notification',
    ...listing,
    examples: [
      'flynn notification add ops https://hooks.slack.com/services/T0/B0/XXXX --all',
      'flynn notification add phone https://ntfy.sh/my-topic --all --on host,backup',
      'flynn notification add team https://example.com/hook -a shop --on deployment',
    ],
  });
  addCommand(parent, { under: notification, name: 'list', ...listing });

  addCommand<AddOptions>(parent, {
    under: notification,
    name: 'add',
    summary: 'have somebody told what goes wrong with an app, or with the cluster and all apps',
    arguments: [
      ['<name>', 'what it is to be called'],
      ['<url>', 'where to: a webhook of Slack, Discord or your own, a topic of ntfy'],
    ],
    options: {
      all: ['--all', 'of the cluster and of all apps'],
      on: ['--on <events>', `what: ${topics.join(', ')}`, []],
      format: ['--format <format>', `${formats.join(', ')} (else what the address tells, else json)`],
      severity: ['--severity <severity>', 'of "finding": critical (as it is else), or warning for those, too'],
      every: ['--every <minutes>', 'of "heartbeat": how often, else 5'],
      inside: ['--inside', 'it is inside the cluster, or one of its hosts'],
    },
    async run(context, options, [name = '', url = '']) {
      if (options.all === true && context.options.app !== undefined) throw usageError('say either -a APP or --all');
      const format = options.format === undefined ? {} : { format: oneOf('--format', formats, options.format) };
      const severity =
        options.severity === undefined
          ? {}
          : { severity: oneOf('--severity', ['critical', 'warning'] as const, options.severity) };
      const named = options.on.flatMap((list) => list.split(',')).map((one) => one.trim());
      const on = named.length === 0 ? {} : { on: named.map((one) => oneOf('--on', topics, one)) };
      const every = options.every === undefined ? {} : { everyMinutes: parseWhole(options.every, everyLimits) };
      const inside = options.inside === true ? { isInside: true } : {};
      const app = options.all === true ? undefined : await context.appName('--all for all of them');
      const of = app === undefined ? {} : { app };
      const client = await context.client();
      const added = await client.call(notifications.create, {
        body: { name, url, ...of, ...format, ...severity, ...on, ...every, ...inside },
      });
      context.show(added, () => addedText(added));
    },
  });

  addCommand(parent, {
    under: notification,
    name: 'test',
    summary: 'send one now, and tell what the receiver says; exit code 1 if it does not take it',
    arguments: [['<name>', 'as "flynn notification" shows it']],
    async run(context, _options, [name = '']) {
      const client = await context.client();
      const said = await client.call(notifications.test, { params: { notification: name } });
      const answer = [said.status, said.answer].filter((part) => part !== undefined && part !== '').join(' ');
      context.show(said, () =>
        said.isAccepted
          ? `${name} has it: ${answer} (${said.ms} ms)`
          : `${name} did not take it: ${answer || 'it said nothing'} (${said.ms} ms)`,
      );
      return said.isAccepted ? 0 : 1;
    },
  });

  addCommand(parent, {
    under: notification,
    name: 'log',
    summary: 'the last messages and what became of them',
    arguments: [['<name>', 'as "flynn notification" shows it']],
    async run(context, _options, [name = '']) {
      const client = await context.client();
      const found = await client.call(notifications.deliveries, { params: { notification: name } });
      context.show(found, () => formatTable(['AT', 'EVENT', 'OUTCOME', 'TRIED', 'ANSWER', 'WHAT'], found.map(rowOf)));
    },
  });

  addCommand(parent, {
    under: notification,
    name: 'remove',
    summary: 'tell them no more',
    arguments: [['<name>', 'as "flynn notification" shows it']],
    async run(context, _options, [name = '']) {
      const client = await context.client();
      await client.call(notifications.remove, { params: { notification: name } });
      context.show({ removed: name }, () => `notification ${name} removed`);
    },
  });
}

function addedText({ notification, secret }: { notification: Notification; secret: string }): string {
  const { name, app, url, format, on } = notification;
  const of = app === undefined ? 'the cluster and all apps' : app.name;
  return [
    `${name}: ${url} is told of ${of} from now on: ${on.join(', ')}`,
    // Who reads text in a chat has no use for it.
    ...(format === 'json' ? [`messages are signed with ${secret}: this is shown once`] : []),
    `see whether it arrives: flynn notification test ${name}`,
  ].join('\n');
}

function rowOf({ at, type, outcome, attempts, answer, title }: Delivery): (string | undefined)[] {
  return [at, type, outcome, attempts.toString(), answer, title];
}

function oneOf<const T extends string>(option: string, known: readonly T[], given: string): T {
  const found = known.find((one) => one === given);
  if (found !== undefined) return found;
  const nearest = nearestOf(given, [...known]);
  const hint = nearest === undefined ? '' : `; did you mean ${nearest}?`;
  throw usageError(`${option}: "${given}" is none of ${known.join(', ')}${hint}`);
}
