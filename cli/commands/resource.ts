import { apps } from '@flynn/controller/api';
import { resources } from '@flynn/controller/providers/api';
import type { ResourceApp, ResourceView } from '@flynn/controller/providers/model';
import { FlynnError, ifFound } from '@flynn/kit/errors';
import { usageError } from '../arguments.ts';
import { confirmByTyping } from '../confirmation.ts';
import type { Context } from '../context.ts';
import { awaitDeployment } from '../deployments/deploy.ts';
import { untilInterrupted } from '../interruption.ts';
import { afterOthers } from '../deployments/others.ts';
import { formatAge, formatTable } from '../output.ts';
import { pollUntil } from '../polling.ts';
import { addCommand, type Parent } from './command.ts';

/** The controller answers after 25 s at the latest with how far it is; it goes on by itself. */
const followMs = 10 * 60_000;
/** A provider has half an hour to make something. */
const madeMs = 35 * 60_000;
const interrupted = 'stopped: if it was asked for by then, "flynn resource" tells how it is';

export function addResourceCommand(parent: Parent): void {
  const resource = addCommand(parent, {
    name: 'resource',
    summary: 'what apps have of providers, like databases; of one app with -a',
    lists: true,
    run: listing,
  });

  addCommand<{ config: string[]; replace?: boolean }>(parent, {
    under: resource,
    name: 'add',
    summary: 'have something made by a provider; its variables are a release that is rolled out',
    arguments: [['<provider>', 'as "flynn provider" shows it']],
    options: {
      config: ['--config <name=value>', 'what the provider is told of it; several times', []],
      replace: ['--replace', 'in the place of what the app has under the same names'],
    },
    examples: ['flynn resource add postgres -a shop', 'flynn resource add postgres --config plan=small'],
    async run(context, { config, replace = false }, [provider = '']) {
      const app = await context.appName();
      const asked = { provider, app, config: configOf(config), isReplacing: replace };
      const { made, version: got } = await addResource(context, asked, madeMs);
      context.show(made, () => `Created resource ${made.id}${got === undefined ? '.' : ` and release ${got}.`}`);
    },
  });

  addCommand<{ replace?: boolean }>(parent, {
    under: resource,
    name: 'attach',
    summary: 'give its variables to one more app',
    arguments: [['<id>', 'as "flynn resource" shows it']],
    options: { replace: ['--replace', 'in the place of what the app has under the same names'] },
    async run(context, { replace = false }, [id = '']) {
      const client = await context.client();
      const app = await context.appName();
      const params = { resource: id, app };
      const changed = await context.progress(`adding ${id} to ${app}`, async () =>
        whole(context, await client.call(resources.addApp, { params, body: { isReplacing: replace } })),
      );
      const got = await rolledOut(context, changed, await idOf(context, app));
      context.show(
        changed,
        () => `Added resource ${id} to ${app}${got === undefined ? '.' : ` and created release ${got}.`}`,
      );
    },
  });

  addCommand(parent, {
    under: resource,
    name: 'detach',
    summary: 'take its variables from an app, as far as they are as they were given; the resource stays',
    arguments: [['<id>', 'as "flynn resource" shows it']],
    async run(context, _options, [id = '']) {
      const client = await context.client();
      const app = await context.appName();
      const changed = await client.call(resources.removeApp, { params: { resource: id, app } });
      const got = await rolledOut(context, changed, await idOf(context, app));
      context.show(
        changed,
        () => `Took resource ${id} from ${app}${got === undefined ? '.' : ` and created release ${got}.`}`,
      );
    },
  });

  addCommand<{ force?: boolean; forget?: boolean; yes?: boolean }>(parent, {
    under: resource,
    name: 'remove',
    summary: 'take its variables from its apps, and have its provider take it back, with all that is in it',
    arguments: [['<id>', 'as "flynn resource" shows it']],
    options: {
      force: ['--force', 'also from apps that do not start without it: what is live in them loses it'],
      forget: ['--forget', 'as an admin: do not ask a provider that is gone for good; what it made stays there'],
      yes: ['-y, --yes', 'of a database of the platform’s own: do not ask'],
    },
    async run(context, { force = false, forget = false, yes = false }, [id = '']) {
      const client = await context.client();
      const own = (await client.call(apps.list, {})).find(({ datastore }) => datastore?.resourceId === id);
      if (own !== undefined && !yes) {
        const { name } = own;
        const doing = `removing ${name}, with all that is in it and its backups,`;
        await confirmByTyping(context.io, { doing, word: name, called: 'its name', kept: 'nothing was removed' });
      }
      const query = { ...(force ? { force } : {}), ...(forget ? { forget } : {}) };
      const removed = await context.progress(`removing ${id}`, async () =>
        gone(context, await client.call(resources.remove, { params: { resource: id }, query }), forget),
      );
      const versions = removed.apps.flatMap(({ version }) => (version === undefined ? [] : [`v${version}`]));
      context.show(removed, () => {
        if (!removed.isGone) {
          return `resource ${id} is being removed, and goes on by itself; it waits for ${removed.waitingFor ?? 'its provider'}`;
        }
        return `${forget ? 'Forgot' : 'Removed'} resource ${id}${versions.length === 0 ? '.' : ` and created release ${versions.join(', ')}.`}`;
      });
    },
  });
}

type Asked = Readonly<{
  provider: string;
  /** None: only an admin asks for what no app has. */
  app: string | undefined;
  config: Readonly<Record<string, string>>;
  isReplacing: boolean;
}>;

/** Once it is made, and live in the app; `version`: of the release that the app got of it. */
export async function addResource(
  context: Context,
  { provider, app, config, isReplacing }: Asked,
  deadlineMs = followMs,
): Promise<{ made: ResourceView; version: string | undefined }> {
  const client = await context.client();
  const body = { config, apps: app === undefined ? [] : [app], isReplacing };
  const create = (signal: AbortSignal) => client.call(resources.create, { params: { provider }, body }, { signal });
  const ask = (signal: AbortSignal) =>
    app === undefined
      ? create(signal)
      : afterOthers(context, { app, waitsUntilLive: true, signal }, () => create(signal));
  const made = await context.progress(`asking ${provider}`, async () =>
    whole(context, await untilInterrupted(context.io, interrupted, ask), deadlineMs),
  );
  return { made, version: app === undefined ? undefined : await rolledOut(context, made, await idOf(context, app)) };
}

async function listing(context: Context): Promise<void> {
  const client = await context.client();
  const { app } = context.options;
  const [found, all] = await Promise.all([
    app === undefined ? client.call(resources.list, {}) : client.call(resources.ofApp, { params: { app } }),
    client.call(apps.list, {}),
  ]);
  const names = new Map(all.map(({ id, name }) => [id, name]));
  // Of the platform's own databases: the app that each is.
  const own = new Map(
    all.flatMap(({ name, datastore }) => (datastore === undefined ? [] : [[datastore.resourceId, name]])),
  );
  context.show(found, () =>
    formatTable(
      ['ID', 'PROVIDER', 'NAME', 'APPS', 'VARIABLES', 'STATE', 'CREATED', 'WAITS FOR'],
      found.map((one) => [
        one.id,
        one.provider,
        own.get(one.id),
        one.apps.map(({ appId }) => names.get(appId) ?? appId).join(','),
        one.variables.join(','),
        one.state,
        formatAge(one.createdAt, Date.now()),
        one.waitingFor,
      ]),
    ),
  );
}

export function configOf(assignments: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    assignments.map((text) => {
      const at = text.indexOf('=');
      if (at < 1) throw usageError(`"${text}" is no setting: write NAME=VALUE`);
      return [text.slice(0, at), text.slice(at + 1)];
    }),
  );
}

async function idOf(context: Context, app: string): Promise<string> {
  const client = await context.client();
  return (await client.call(apps.get, { params: { app } })).id;
}

/** Once its apps have what it holds; what went wrong is thrown. */
async function whole(context: Context, first: ResourceView, deadlineMs = followMs): Promise<ResourceView> {
  const client = await context.client();
  const params = { resource: first.id };
  const problemOf = ({ failure, apps: all }: ResourceView) =>
    failure ?? all.map((one) => one.failure).find((one) => one !== undefined);
  const isWhole = (view: ResourceView) => view.state === 'ready' && view.apps.every(({ state }) => state !== 'adding');
  const isSettled = (view: ResourceView) => problemOf(view) !== undefined || isWhole(view);
  const view = isSettled(first)
    ? first
    : await pollUntil(
        async () => {
          const now = await client.call(resources.get, { params });
          return isSettled(now) ? now : undefined;
        },
        { what: `the resource ${first.id}: "flynn resource" tells how it is`, deadlineMs, intervalMs: 500 },
      );
  const problem = problemOf(view);
  if (problem === undefined) return view;
  throw new FlynnError(
    problem.code,
    `${problem.message}\n  the resource ${view.id} waits for that: "flynn resource remove ${view.id}" ends it`,
  );
}

/** Until nothing is left, or its provider is waited for, or people are; a forgotten one waits for none. */
async function gone(
  context: Context,
  first: ResourceView & { isGone: boolean },
  isForgotten: boolean,
): Promise<ResourceView & { isGone: boolean }> {
  const isLeft = ({ failure }: ResourceView) => failure !== undefined && !isForgotten;
  if (first.isGone || isLeft(first)) return first;
  const client = await context.client();
  return pollUntil(
    async () => {
      const now = await ifFound(client.call(resources.get, { params: { resource: first.id } }));
      if (now === undefined) return { ...first, isGone: true };
      return isLeft(now) ? { ...now, apps: first.apps, isGone: false } : undefined;
    },
    { what: `the end of ${first.id}: "flynn resource" tells how it is`, deadlineMs: followMs, intervalMs: 500 },
  );
}

/** The release that an app got, live by now; undefined if it needed none. */
async function rolledOut(context: Context, { apps: all }: ResourceView, appId: string): Promise<string | undefined> {
  const got: ResourceApp | undefined = all.find((one) => one.appId === appId);
  if (got?.version === undefined) return undefined;
  const version = `v${got.version}`;
  const { deploymentId } = got;
  if (deploymentId !== undefined) await awaitDeployment(context, { app: appId, what: version }, () => deploymentId);
  return version;
}
