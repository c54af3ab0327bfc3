/** Objects of the generic API as whoever asks may see them: what they may not see is not there for them. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { mayRead } from '@flynn/resource/access';
import { refusal } from '@flynn/resource/record';
import type { Owner, Resource } from '@flynn/resource/type';
import type { Deps } from '../deps.ts';
import { appType, ownedBy } from '../resources.ts';
import type { CallerAsking } from './access.ts';
import type { GenericObject } from './api.ts';
import type { Kind } from './kind.ts';
import { findObject } from './plain.ts';
import type { ResourceReader } from './reader.ts';
import { viewObject } from './view.ts';

export type Found = Resource<unknown, unknown>;

export async function getObject(
  deps: Deps,
  kind: Kind,
  name: string,
  asking: CallerAsking,
  signal: AbortSignal,
): Promise<Found> {
  const found = await findObject(deps, kind, name, signal);
  if (found !== undefined) await asking.learn([found], signal);
  // What somebody may not see is not there for them.
  if (found !== undefined && mayRead(kind.type, asking, found)) return found;
  throw new FlynnError(
    'not_found',
    `there is no ${kind.type.name} "${name}"; list them with: flynn get ${kind.type.name}`,
    {
      detail: { type: kind.type.name, name },
    },
  );
}

/** Who only looks is not told what holds passwords. */
export async function showObject(
  deps: Deps,
  kind: Kind,
  resource: Found,
  { read, asking }: { read: ResourceReader; asking: CallerAsking },
): Promise<GenericObject> {
  const object = await viewObject(deps, kind, resource, read);
  if (kind.withoutSecrets === undefined || asking.isOperator) return object;
  const owner = resource.type === appType.name ? ownedBy(resource.id) : resource.owner;
  return asking.mayReadSecrets(owner) ? object : { ...object, spec: kind.withoutSecrets(object.spec) };
}

/** `app/shop`: the kind by what people call it, then a name or an id. */
export async function ownerNamed(
  { kinds, resources }: Deps,
  text: string,
  what: string,
  {
    assumed,
    isDryRun,
    signal,
    asking,
  }: { assumed: readonly string[]; isDryRun: boolean; signal: AbortSignal; asking: CallerAsking },
): Promise<Owner> {
  const [, kindName = '', name = ''] = /^([^/]+)\/(.+)$/.exec(text) ?? [];
  const kind = kinds.named(kindName.toLowerCase());
  if (kind === undefined) {
    throw refusal(what, [{ path: 'owner', message: `"${text}" is no object: write KIND/NAME, like app/shop` }]);
  }
  const { type } = kind;
  try {
    const found = await resources.lookup(type, name, { signal });
    await asking.learn([found], signal);
    // What somebody may not see is not there for them.
    if (!mayRead(type, asking, found)) throw new FlynnError('not_found', `there is no ${type.name} "${name}"`);
    const { id, uid } = found;
    return { type: type.name, id, uid };
  } catch (error) {
    if (!hasCode(error, 'not_found')) throw error;
    if (isDryRun && assumed.includes(`${type.name}/${name}`)) return { type: type.name, id: name };
    throw refusal(what, [{ path: 'owner', message: `there is no ${type.name} "${name}"` }]);
  }
}
