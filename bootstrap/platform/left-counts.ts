/** How many there were of a part of the platform that a version lacks: so many come back with the next version that has it. */
import { messageOf } from '@flynn/kit/errors';
import { decodeJson } from '@flynn/store/codec';
import type { Operation, Store } from '@flynn/store/store';
import { z } from 'zod';
import type { SystemApp } from './manifest.ts';
import type { Outcome } from './platform.ts';

const key = '/flynn/cluster/left-counts';
/** By app, then by process type. */
const leftSchema = z.record(z.string(), z.record(z.string(), z.int().min(0)));
export type LeftCounts = Readonly<z.output<typeof leftSchema>>;

/** None are deleted. */
export function leftCountsPut(counts: LeftCounts): Operation {
  return Object.keys(counts).length === 0 ? { delete: key } : { put: key, value: JSON.stringify(counts) };
}

/** Those that cannot be read are none: the manifest's count then, and a line says so. */
export async function readLeftCounts(
  store: Pick<Store, 'get'>,
  { signal, report }: Readonly<{ signal: AbortSignal; report: (line: string) => void }>,
): Promise<LeftCounts> {
  const entry = await store.get(key, { signal });
  if (entry === undefined) return {};
  try {
    return decodeJson(leftSchema, entry.value, key);
  } catch (error) {
    report(`what comes back comes in its usual number, set it with flynn scale: ${messageOf(error)}`);
    return {};
  }
}

/** Of an app that is made: what is there has counts of its own. Types that it has no more count nothing. */
export function withLeft(app: SystemApp, left: LeftCounts): SystemApp {
  const known = Object.entries(left[app.name] ?? {}).filter(([type]) => Object.hasOwn(app.processes, type));
  return { ...app, counts: { ...app.counts, ...Object.fromEntries(known) } };
}

/** Without those of the apps that are back: what is left out, or failed, may yet come. */
export function stillLeft(left: LeftCounts, outcomes: ReadonlyMap<string, Outcome>): LeftCounts {
  const isAway = (app: string): boolean => ['left out', 'failed', undefined].includes(outcomes.get(app));
  return Object.fromEntries(Object.entries(left).filter(([app]) => isAway(app)));
}
