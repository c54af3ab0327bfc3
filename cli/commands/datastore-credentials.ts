/** `flynn pg credentials`, `flynn redis credentials`: whom apps log in to a database as, and making its password anew. */
import type { Command } from 'commander';
import { datastores } from '@flynn/controller/datastores/api';
import type { Credentials } from '@flynn/controller/datastores/api';
import type { Context } from '../context.ts';
import type { DatastoreKind } from '../datastores/kinds.ts';
import { datastoreOf, resource, type Target } from '../datastores/target.ts';
import { untilInterrupted } from '../interruption.ts';
import { formatTable } from '../output.ts';
import { pollUntil } from '../polling.ts';
import { addCommand, type Parent } from './command.ts';

/** Apps may take long to be deployed; it goes on by itself. */
const followMs = 60 * 60_000;

/** Under the command of its kind. */
export function addDatastoreCredentialsCommands(parent: Parent, under: Command, kind: DatastoreKind): void {
  const command = `flynn ${kind.command} credentials`;
  const credentials = addCommand<Target>(parent, {
    under,
    name: 'credentials',
    summary:
      'whom apps log in as, since when with this password, and how far a change of it is; exit code 1 where that needs somebody',
    options: { resource },
    examples: [`${command} -a shop`, `${command} rotate -a shop`],
    async run(context, { resource: named }) {
      const client = await context.client();
      const { id } = await datastoreOf(context, kind, named);
      return show(context, kind, await client.call(datastores.credentials, { params: { app: id } }));
    },
  });

  addCommand<Target & { force?: boolean }>(parent, {
    under: credentials,
    name: 'rotate',
    summary:
      'make the password anew: its apps get a release with the new one, and then the former one opens nothing; goes on with one that was broken off',
    options: {
      resource,
      force: [
        '--force',
        'shut out other apps that have the former password in their variables: else they are waited for',
      ],
    },
    async run(context, { resource: named, force = false }) {
      const client = await context.client();
      const { id, name } = await datastoreOf(context, kind, named);
      const params = { app: id };
      let now = await client.call(datastores.rotate, { params, query: force ? { force } : {} });
      const left = `stopped: it goes on by itself, "${command} -a ${name}" tells how far it is`;
      const settled = await context.progress(
        () => progressText(now),
        () =>
          untilInterrupted(context.io, left, async (signal) =>
            pollUntil(
              async () => {
                now = await client.call(datastores.credentials, { params }, { signal });
                return isSettled(now) ? now : undefined;
              },
              {
                what: `the new password of ${name}, which goes on by itself`,
                deadlineMs: followMs,
                intervalMs: 500,
                signal,
              },
            ),
          ),
      );
      return show(context, kind, settled);
    },
  });
}

/** Through, or nothing is under way any more but what failed. */
function isSettled({ rotation }: Credentials): boolean {
  if (rotation === undefined || rotation.state === 'done') return true;
  return hasFailed({ rotation }) && rotation.apps.every(({ state }) => state === 'complete' || state === 'failed');
}

function hasFailed({ rotation }: Pick<Credentials, 'rotation'>): boolean {
  return rotation?.state === 'giving' && rotation.apps.some(({ state }) => state === 'failed');
}

function progressText({ datastore, rotation, waitingFor }: Credentials): string {
  const apps = rotation?.apps ?? [];
  const through = apps.filter(({ state }) => state === 'complete').length;
  const far = apps.length === 0 ? '' : `, ${through} of ${apps.length} apps have it`;
  return `making the password of ${datastore} anew${far}${waitingFor === undefined ? '' : `; waits for ${waitingFor}`}`;
}

function show(context: Context, { command }: DatastoreKind, credentials: Credentials): number {
  context.show(credentials, () => textOf(credentials));
  if (!hasFailed(credentials)) return 0;
  const { datastore, rotation } = credentials;
  const failed = (rotation?.apps ?? []).filter(({ state }) => state === 'failed');
  const whys = failed.map(({ failure }) => failure ?? notSeen(command, datastore));
  const [first] = failed.flatMap(({ app }) => (app === undefined ? [] : [app]));
  const look = first === undefined ? '' : `"flynn log -a ${first}" and "flynn deployment -a ${first}" tell more; `;
  context.tell(
    [
      `flynn: the former password of ${datastore} is still good: ${whys.join('; ')}`,
      `  ${look}once that is mended "flynn ${command} credentials rotate -a ${datastore}" goes on`,
    ].join('\n'),
  );
  return 1;
}

/** All that have the database are the caller's. */
function notSeen(command: string, datastore: string): string {
  return `an app that you do not see has it, and not the database: "flynn ${command} credentials rotate --force -a ${datastore}" shuts it out`;
}

function textOf({ datastore, login, since, rotation, waitingFor }: Credentials): string {
  const head = [`Name:      ${datastore}`, `Login:     ${login}, with this password since ${since}`];
  if (rotation === undefined) return head.join('\n');
  const { state, by, startedAt, endedAt, apps } = rotation;
  const far =
    state === 'done'
      ? `done ${endedAt ?? ''}, by ${by}: the former password opens nothing`
      : `under way since ${startedAt}, by ${by}: the former password is good${waitingFor === undefined ? '' : `; waits for ${waitingFor}`}`;
  const table = formatTable(
    ['APP', 'STATE', 'RELEASE'],
    apps.map((one) => [one.app ?? 'another', one.state, one.version === undefined ? undefined : `v${one.version}`]),
  );
  return [...head, `Rotation:  ${far}`, ...(apps.length === 0 ? [] : [`\n${table}`])].join('\n');
}
