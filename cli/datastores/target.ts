/** Which datastore does a command mean? That of the app, or the one it names. */
import { apps } from '@flynn/controller/api';
import { commandOf } from '@flynn/controller/datastores/kinds';
import type { App } from '@flynn/controller/model';
import { resources } from '@flynn/controller/providers/api';
import { FlynnError } from '@flynn/kit/errors';
import type { Context } from '../context.ts';
import type { DatastoreKind } from './kinds.ts';

/** Options of a command that means one. */
export type Target = { resource?: string };
export const resource = ['--resource <name>', 'of several that the app has: the name or the id'] as const;

/** `named`: its id or its name, as `flynn resource` shows them. Throws what to say where there is none, or several. */
export async function datastoreOf(context: Context, kind: DatastoreKind, named: string | undefined): Promise<App> {
  const found = await datastoresOf(context, kind, named);
  const [first] = found;
  if (first !== undefined && found.length === 1) return first;
  throw new FlynnError(
    'invalid',
    `${await context.appName()} has several: ${found.map(({ name }) => name).join(', ')}\n  say which with --resource NAME`,
  );
}

/** The datastore that is meant, as the calls of its resource name it. */
export async function resourceOf(
  context: Context,
  kind: DatastoreKind,
  named: string | undefined,
): Promise<{ name: string; params: { resource: string } }> {
  const { name, datastore } = await datastoreOf(context, kind, named);
  return { name, params: { resource: datastore?.resourceId ?? '' } };
}

/** At least one of that kind. An app that is one itself means itself. */
export async function datastoresOf(context: Context, kind: DatastoreKind, named: string | undefined): Promise<App[]> {
  const client = await context.client();
  const all = (await client.call(apps.list, {})).filter(({ datastore }) => datastore !== undefined);
  if (named !== undefined) {
    const meant = all.filter(({ id, name, datastore }) => [id, name, datastore?.resourceId].includes(named));
    if (meant.length > 0) return meant.map((one) => ofKind(one, kind));
    throw new FlynnError('not_found', `there is no datastore "${named}"\n  "flynn resource" lists what there is`);
  }
  const app = await context.appName();
  const own = all.filter(({ id, name }) => id === app || name === app);
  if (own.length > 0) return own.map((one) => ofKind(one, kind));
  const had = new Set((await client.call(resources.ofApp, { params: { app } })).map(({ id }) => id));
  const found = all.filter(
    ({ datastore }) =>
      datastore !== undefined && datastore.appliance === kind.appliance && had.has(datastore.resourceId),
  );
  if (found.length > 0) return found;
  throw new FlynnError(
    'not_found',
    `${app} has no ${kind.title} of the platform's own\n  flynn resource add ${kind.appliance} -a ${app} gives it one`,
  );
}

/** Throws `invalid` for one of another kind, with the command for that. */
function ofKind(app: App, kind: DatastoreKind): App {
  const appliance = app.datastore?.appliance ?? '';
  if (appliance === kind.appliance) return app;
  throw new FlynnError(
    'invalid',
    `${app.name} is no ${kind.title} but a ${appliance}\n  flynn ${commandOf(appliance)} -a ${app.name} is for that`,
  );
}

/** Names of those that go with the app: no other app has them. */
export async function datastoresGoingWith(context: Context, { id }: Pick<App, 'id'>): Promise<string[]> {
  const client = await context.client();
  const [all, had] = await Promise.all([
    client.call(apps.list, {}),
    client.call(resources.ofApp, { params: { app: id } }),
  ]);
  const own = new Set(had.flatMap((one) => (one.apps.every(({ appId }) => appId === id) ? [one.id] : [])));
  return all.flatMap(({ name, datastore }) => (datastore !== undefined && own.has(datastore.resourceId) ? [name] : []));
}
