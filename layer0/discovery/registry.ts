/** The services of the cluster as this process knows them, and the instances it announces. */
import { FlynnError } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { AsyncQueue } from '@flynn/kit/queue';
import { openMirror } from '@flynn/store/mirror';
import type { Lease, Store } from '@flynn/store/store';
import { z } from 'zod';
import { instanceSchema } from './api.ts';
import type { DiscoveryEvent, Instance } from './api.ts';
import { leaderOf } from './election.ts';
import { diffInstances, hasSameAttributes, oldestFirst } from './instances.ts';
import type { InstanceSet } from './instances.ts';
import { LeasedKeys } from './leased-keys.ts';

export const servicesPrefix = '/flynn/discovery/services/';
export const instanceKey = (service: string, id: string) => `${servicesPrefix}${service}/${id}`;

const announcedSchema = z.object({ address: z.string(), attributes: z.record(z.string(), z.string()).default({}) });

export type Registration = { service: string; id: string; address: string; attributes?: Record<string, string> };

/**
 * Disposing of a registry takes nothing back. Close its store after it: what it announced then lasts for the TTL, within
 * which a restarted process announces it again unnoticed.
 */
export interface Registry extends AsyncDisposable {
  /**
   * Announces an instance, or changes it. Without a lease it stays until deregistered or this process is gone; with one it
   * goes with that lease, and the caller puts it again on the next. Seen by this registry's reads when it resolves.
   */
  register(registration: Registration, options?: { lease?: Lease }): Promise<Instance>;
  /** Whoever announced it. One that is not there is fine. */
  deregister(service: string, id: string): Promise<void>;
  services(): readonly { name: string; instances: number }[];
  /** Oldest first. */
  instances(service: string): readonly Instance[];
  leader(service: string): Instance | undefined;
  /**
   * The current set, `current`, then changes in order until the signal aborts. A reader that falls thousands of events
   * behind is ended with `exhausted`: subscribe again.
   */
  subscribe(service: string, options: { signal: AbortSignal }): AsyncIterable<DiscoveryEvent>;
}

const none: InstanceSet = new Map();

export async function createRegistry(options: {
  store: Store;
  log: Logger;
  signal?: AbortSignal;
  /** How long instances outlive a process that vanished. */
  ttlSeconds?: number;
}): Promise<Registry> {
  const { store, log, signal, ttlSeconds = 10 } = options;
  const until = signal === undefined ? {} : { signal };
  const mirror = await openMirror<Instance>({
    store,
    prefix: servicesPrefix,
    decode: (json, key, entry) => ({
      ...splitKey(key),
      ...announcedSchema.parse(json),
      createdRevision: entry.createRevision,
    }),
    log,
    ...until,
  });
  const keys = new LeasedKeys({ store, ttlSeconds, log, ...until });
  const sets = new Map<string, InstanceSet>();
  const subscribers = new Map<string, Set<AsyncQueue<DiscoveryEvent>>>();

  function fold(key: string, after: Instance | undefined): void {
    const { service, id } = splitKey(key);
    const before = sets.get(service) ?? none;
    const set = new Map(before);
    if (after === undefined) set.delete(id);
    else set.set(id, after);
    if (set.size === 0) sets.delete(service);
    else sets.set(service, set);
    const events = diffInstances(before, set);
    for (const queue of subscribers.get(service) ?? []) for (const event of events) queue.push(event);
  }

  for (const [key, entry] of mirror.snapshot.entries) fold(key, entry.value);
  const off = mirror.onChange((change) => {
    fold(change.key, change.after);
    // Keys go when their lease does, which may be noticed late; this one is still meant to be there.
    if (change.after === undefined) keys.restore(servicesPrefix + change.key);
  });

  return {
    async register(registration, { lease } = {}) {
      const { service, id } = registration;
      const { address, attributes } = instanceSchema.parse({
        attributes: {},
        ...registration,
        createdRevision: 0,
      });
      const key = instanceKey(service, id);
      const value = JSON.stringify({ address, attributes });
      const known = sets.get(service)?.get(id);
      // What is wanted may not have got through yet.
      const isThere = known?.address === address && hasSameAttributes(known.attributes, attributes);
      if (lease === undefined && isThere && keys.isWanted(key, value)) return known;
      const revision =
        lease === undefined
          ? await keys.put(key, value)
          : (await store.transact({ then: [{ put: key, value, lease: lease.id }] })).revision;
      await mirror.reached(revision, { deadlineMs: 5_000 });
      const instance = sets.get(service)?.get(id);
      if (instance === undefined) {
        throw new FlynnError(
          'conflict',
          `${service}/${id} was taken back while it was being announced: announce it again`,
        );
      }
      return instance;
    },
    async deregister(service, id) {
      const revision = await keys.remove(instanceKey(service, id));
      // Without such a key there is nothing to wait for.
      if (sets.get(service)?.has(id) === true) await mirror.reached(revision, { deadlineMs: 5_000 });
    },
    services: () =>
      [...sets].map(([name, set]) => ({ name, instances: set.size })).sort((a, b) => (a.name < b.name ? -1 : 1)),
    instances: (service) => oldestFirst(sets.get(service) ?? none),
    leader: (service) => leaderOf((sets.get(service) ?? none).values()),
    async *subscribe(service, { signal }) {
      const queue = new AsyncQueue<DiscoveryEvent>({ limit: 10_000 });
      for (const event of diffInstances(none, sets.get(service) ?? none)) queue.push(event);
      queue.push({ event: 'current' });
      const group = subscribers.get(service) ?? new Set();
      subscribers.set(service, group.add(queue));
      const end = () => queue.end();
      signal.addEventListener('abort', end, { once: true });
      if (signal.aborted) end();
      try {
        yield* queue;
      } finally {
        signal.removeEventListener('abort', end);
        group.delete(queue);
        if (group.size === 0 && subscribers.get(service) === group) subscribers.delete(service);
      }
    },
    async [Symbol.asyncDispose]() {
      off();
      for (const group of subscribers.values()) for (const queue of group) queue.end();
      await keys[Symbol.asyncDispose]();
      await mirror[Symbol.asyncDispose]();
    },
  };
}

function splitKey(key: string): { service: string; id: string } {
  const at = key.indexOf('/');
  return { service: key.slice(0, at), id: key.slice(at + 1) };
}
