/**
 * Which host keeps the platform up to date: the one that made the cluster, until another takes that over. It stands in the store;
 * what a host has of it on its own disk may be of before.
 */
import { FlynnError } from '@flynn/kit/errors';
import { eitherCommand } from '@flynn/kit/operator-commands';
import { decodeJson } from '@flynn/store/codec';
import type { Store } from '@flynn/store/store';
import { z } from 'zod';

const keeperKey = '/flynn/cluster/keeper';

const keeperSchema = z.object({
  hostId: z.string(),
  /** Since when, ISO 8601. */
  since: z.string(),
});
export type Keeper = Readonly<z.output<typeof keeperSchema>>;

/** Undefined where none has said so yet, as in a cluster of a version before. */
export async function readKeeper(store: Pick<Store, 'get'>, signal?: AbortSignal): Promise<Keeper | undefined> {
  const entry = await store.get(keeperKey, signal === undefined ? {} : { signal });
  return entry === undefined ? undefined : decodeJson(keeperSchema, entry.value, keeperKey);
}

/** Whoever it is by now: the given one where there was none. */
export async function ensureKeeper(store: Store, keeper: Keeper): Promise<Keeper> {
  // Reading finds a member that answers; a write does not look for one.
  const before = await readKeeper(store);
  if (before !== undefined) return before;
  const { succeeded } = await store.transact({
    compare: [{ key: keeperKey, modRevision: 0 }],
    then: [{ put: keeperKey, value: JSON.stringify(keeper) }],
  });
  return succeeded ? keeper : ((await readKeeper(store)) ?? keeper);
}

/** In the place of the one that was read before; `conflict` where it is another one by now. */
export async function replaceKeeper(store: Store, former: Keeper | undefined, keeper: Keeper): Promise<void> {
  const entry = await store.get(keeperKey);
  const before = entry === undefined ? undefined : decodeJson(keeperSchema, entry.value, keeperKey);
  const isSame = before?.hostId === former?.hostId && before?.since === former?.since;
  const { succeeded } = isSame
    ? await store.transact({
        compare: [{ key: keeperKey, modRevision: entry?.modRevision ?? 0 }],
        then: [{ put: keeperKey, value: JSON.stringify(keeper) }],
      })
    : { succeeded: false };
  if (succeeded) return;
  throw new FlynnError(
    'conflict',
    `another host has taken the platform over at this moment: flynn-host status says which. Where it is to be this one all the same, ${eitherCommand('takeOver')} again. This host is what it was`,
  );
}
