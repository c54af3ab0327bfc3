/**
 * Gives up a record that cannot be read: somebody says so, by its key. What it was is gone for good, and what it alone refers to
 * goes with the next round; all others are collected again.
 */
import { FlynnError } from '@flynn/kit/errors';
import { nameKey, resourceKey } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { AnyType } from '@flynn/resource/type';
import type { Entry } from '@flynn/store/store';
import { datastoreBackupType } from '../datastore-backups/types.ts';
import { archiveType, historyType } from '../datastore-history/types.ts';
import type { Deps } from '../deps.ts';
import { appType, artifactType, operationType, releaseType } from '../resources.ts';

/** Of what keeps a round from ending all but apps: what runs of one would be nobody's. */
const types: readonly AnyType[] = [
  releaseType,
  artifactType,
  operationType,
  datastoreBackupType,
  historyType,
  archiveType,
];

/** With its name. `invalid` where it is none of these, `not_found` where it is not there, `conflict` where it can be read. */
export async function forgetUnreadable(
  { store }: Pick<Deps, 'store'>,
  key: string,
  signal: AbortSignal,
): Promise<void> {
  const { type, id } = placeOf(key);
  const entry = await store.get(key, { signal });
  if (entry === undefined)
    throw new FlynnError('not_found', `there is no record ${key}: flynn status names the one there is`);
  if (isReadable(type, entry)) {
    throw new FlynnError('conflict', `${key} can be read, and keeps nothing from being collected: nothing was deleted`);
  }
  const names = await store.list(nameKey(type.name, ''), { signal });
  const own = names.entries.filter(({ value }) => value === id);
  const { succeeded } = await store.transact(
    {
      compare: [{ key, modRevision: entry.modRevision }],
      then: [{ delete: key }, ...own.map((name) => ({ delete: name.key }))],
    },
    { signal },
  );
  if (!succeeded)
    throw new FlynnError('conflict', `${key} was changed at the same time: look whether it can be read now`);
}

function placeOf(key: string): { type: AnyType; id: string } {
  if (key.startsWith(resourceKey(appType.name, ''))) {
    throw new FlynnError(
      'invalid',
      `${key} is an app, and what runs of it would be nobody's: go to the version of flynn that wrote it, or restore a backup of the cluster`,
    );
  }
  for (const type of types) {
    const prefix = resourceKey(type.name, '');
    const id = key.startsWith(prefix) ? key.slice(prefix.length) : '';
    if (id !== '') return { type, id };
  }
  const known = types.map(({ name }) => name).join(', ');
  throw new FlynnError(
    'invalid',
    `"${key}" is no key of what collection reads: flynn status names it, like ${resourceKey(releaseType.name, 'ID')}; types are ${known}`,
  );
}

function isReadable(type: AnyType, entry: Entry): boolean {
  try {
    decodeResource(type, entry);
    return true;
  } catch {
    return false;
  }
}
