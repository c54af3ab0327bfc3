/** The datastore that a request is about. */
import { appliances } from '@flynn/appliances/appliances';
import type { Appliance } from '@flynn/appliances/appliance';
import { FlynnError } from '@flynn/kit/errors';
import { findApp } from '../deps.ts';
import type { Deps } from '../deps.ts';
import type { AppResource } from '../resources.ts';

/** A datastore's app with what it is. */
export type Datastore = Readonly<{ app: AppResource; appliance: Appliance; resourceId: string }>;

export async function findDatastore(deps: Deps, nameOrId: string, signal: AbortSignal): Promise<Datastore> {
  return asDatastore(await findApp(deps, nameOrId, signal));
}

/** Of `flynn`, for all that is done with it. */
export function commandOf({ spec: { datastore } }: Pick<AppResource, 'spec'>): string {
  return appliances.get(datastore?.appliance ?? '')?.cli.command ?? 'resource';
}

/** Throws `invalid` for an app that is none. */
export function asDatastore(app: AppResource): Datastore {
  const { name, datastore } = app.spec;
  const appliance = datastore === undefined ? undefined : appliances.get(datastore.appliance);
  if (datastore !== undefined && appliance !== undefined) return { app, appliance, resourceId: datastore.resourceId };
  throw new FlynnError(
    'invalid',
    `${name} is no datastore of the platform's own: flynn resource -a ${name} tells what it has`,
  );
}
