/** A resource as the worker goes on with it, for whoever asked for that and waits. */
import { withDeadline } from '@flynn/kit/retry';
import { resourceKey } from '@flynn/resource/keys';
import { decodeResource } from '@flynn/resource/record';
import type { Deps } from '../deps.ts';
import { resourceType } from './types.ts';
import type { ProvidedResource } from './types.ts';

/** Less than the 30 s after which the router takes a backend for dead. */
const waitMs = 25_000;

/**
 * The first state, from that revision on, in which `isSettled`; after 25 s the one it is in; undefined once it is gone. No
 * state in between is left out.
 */
export async function settled(
  { store, resources }: Pick<Deps, 'store' | 'resources'>,
  { id, revision }: { id: string; revision: number },
  isSettled: (resource: ProvidedResource) => boolean,
  signal: AbortSignal,
): Promise<ProvidedResource | undefined> {
  const first = await resources.find(resourceType, id, { signal });
  if (first === undefined || isSettled(first)) return first;
  const key = resourceKey(resourceType.name, id);
  const limited = withDeadline(waitMs, signal);
  for await (const { changes } of store.watch(key, { after: revision, signal: limited })) {
    for (const change of changes) {
      if (change.type === 'delete' && change.key === key) return undefined;
      if (change.type !== 'put' || change.entry.key !== key) continue;
      const now = decodeResource(resourceType, change.entry);
      if (isSettled(now)) return now;
    }
  }
  signal.throwIfAborted();
  return resources.find(resourceType, id, { signal });
}
