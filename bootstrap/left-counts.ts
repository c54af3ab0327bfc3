/** How many there were of a part of the platform that a version lacks: so many come back with the next version that has it. */
import { decodeJson } from '@flynn/store/codec';
import type { Operation, Store } from '@flynn/store/store';
import { z } from 'zod';
import type { SystemApp } from './manifest.ts';

const key = '/flynn/cluster/left-counts';
/** By app, then by process type. */
const leftSchema = z.record(z.string(), z.record(z.string(), z.int().min(0)));
export type LeftCounts = Readonly<z.output<typeof leftSchema>>;

export function leftCountsPut(counts: LeftCounts): Operation {
  return { put: key, value: JSON.stringify(counts) };
}

/** Once they count again. */
export const leftCountsDelete: Operation = { delete: key };

export async function readLeftCounts(store: Pick<Store, 'get'>, signal: AbortSignal): Promise<LeftCounts> {
  const entry = await store.get(key, { signal });
  return entry === undefined ? {} : decodeJson(leftSchema, entry.value, key);
}

/** Of an app that is made: what is there has counts of its own. */
export function withLeft(app: SystemApp, left: LeftCounts): SystemApp {
  return { ...app, counts: { ...app.counts, ...left[app.name] } };
}
