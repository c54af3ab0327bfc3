/** Apps by the index of their names: who is shown some of them reads no others. */
import { nameKey, resourceKey, resourcePrefix } from '@flynn/resource/keys';
import type { Decoded } from '../mirrors/decoded.ts';
import type { Deps } from '../deps.ts';
import { appType } from '../resources.ts';
import type { AppResource } from '../resources.ts';

/** A transaction holds a hundred operations on any store. */
const readsAtOnce = 100;

export type AppName = { id: string; name: string };

/** All of them, by name: a page reads no more apps than it shows. */
export async function appNames({ store }: Pick<Deps, 'store'>, signal: AbortSignal): Promise<AppName[]> {
  const prefix = nameKey(appType.name, '');
  const { entries } = await store.list(prefix, { signal });
  return entries.map(({ key, value }) => ({ id: value, name: key.slice(prefix.length) }));
}

/** In their order. One that was deleted in between is left out. */
export async function appsNamed(
  { store }: Pick<Deps, 'store'>,
  decoded: Pick<Decoded<AppResource['spec'], AppResource['status'], never>, 'of'>,
  names: readonly AppName[],
  signal: AbortSignal,
): Promise<AppResource[]> {
  if (names.length > readsAtOnce) {
    const { entries } = await store.list(resourcePrefix(appType.name), { signal });
    const byKey = new Map(entries.map((entry) => [entry.key, entry]));
    const found = names.flatMap(({ id }) => byKey.get(resourceKey(appType.name, id)) ?? []);
    return found.map((entry) => decoded.of(entry));
  }
  if (names.length === 0) return [];
  const { reads } = await store.transact(
    { then: names.map(({ id }) => ({ get: resourceKey(appType.name, id) })) },
    { signal },
  );
  return reads.flatMap(([entry]) => (entry === undefined ? [] : [decoded.of(entry)]));
}
