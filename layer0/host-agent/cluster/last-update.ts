/** How the last update of the cluster ended: for those who are to be told. Written by the host that was at it. */
import { decodeJson } from '@flynn/store/codec';
import type { Operation, Store } from '@flynn/store/store';
import { z } from 'zod';

const key = '/flynn/cluster/last-update';

const lastUpdateSchema = z.object({
  /** What all was to be moved to. */
  version: z.string(),
  previous: z.string().optional(),
  /** `back`: to the version before. `partly`: it was left where it was. A later version may know of others. */
  outcome: z.enum(['moved', 'back', 'partly', 'unknown']).catch('unknown'),
  /** When it ended, ISO 8601. */
  at: z.string(),
});
export type LastUpdate = Readonly<z.output<typeof lastUpdateSchema>>;

/** In the place of the one before. */
export function lastUpdatePut(update: LastUpdate): Operation {
  return { put: key, value: JSON.stringify(update) };
}

export async function readLastUpdate(store: Pick<Store, 'get'>, signal: AbortSignal): Promise<LastUpdate | undefined> {
  const entry = await store.get(key, { signal });
  return entry === undefined ? undefined : decodeJson(lastUpdateSchema, entry.value, key);
}
