/** The instances of one service as they are now: a subscription folded into a list. */
import { messageOf } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import type { Logger } from '@flynn/kit/log';
import { systemClock } from '@flynn/kit/clock';
import type { DiscoveryEvent, Instance } from './api.ts';
import { oldestFirst } from './instances.ts';

export interface ServiceSet {
  /** Oldest first; a new frozen list after every change. */
  readonly instances: readonly Instance[];
  readonly leader: Instance | undefined;
  /** Called after every change, of the leader too, with the list as it is then. */
  onChange(listener: (instances: readonly Instance[]) => void): () => void;
  /** Resolves when the whole set is known for the first time; rejects if the subscription ended before. */
  readonly ready: Promise<void>;
  /** Since when nothing is told of it, in milliseconds since the epoch: what is known is as of then. Undefined while it is told. */
  readonly silentSinceMs: number | undefined;
}

/**
 * Resolves when the whole set is known, but after `waitMs` (default 2 s) in any case: whoever starts before discovery does
 * starts with an empty set and hears of the instances when they come. Lives until the subscription's signal aborts.
 */
export async function openServiceSet(
  events: AsyncIterable<DiscoveryEvent>,
  options: {
    service: string;
    signal: AbortSignal;
    log?: Logger;
    waitMs?: number;
    /** Of where the events come from, which may break without their end; default never. */
    silentSinceMs?: () => number | undefined;
  },
): Promise<ServiceSet> {
  const { service, signal, log = silentLogger(), waitMs = 2_000, silentSinceMs = () => undefined } = options;
  const byId = new Map<string, Instance>();
  const listeners = new Set<(instances: readonly Instance[]) => void>();
  const ready = Promise.withResolvers<void>();
  let instances: readonly Instance[] = Object.freeze([]);
  let leader: Instance | undefined;
  let isCurrent = false;

  function publish(): void {
    instances = oldestFirst(byId);
    for (const listener of listeners) {
      try {
        listener(instances);
      } catch (error) {
        log.error({ err: error, service }, `a listener of ${service}'s instances failed: ${messageOf(error)}`);
      }
    }
  }

  async function follow(): Promise<void> {
    for await (const event of events) {
      if (event.event === 'current') {
        if (isCurrent) continue;
        isCurrent = true;
        publish();
        ready.resolve();
        continue;
      }
      if (event.event === 'lagged' || event.event === 'meta') continue;
      if (event.event === 'leader') leader = event.instance;
      else if (event.event === 'down') byId.delete(event.instance.id);
      else byId.set(event.instance.id, event.instance);
      if (isCurrent) publish();
    }
    ready.reject(signal.reason);
  }

  void follow().catch((error: unknown) => {
    if (!signal.aborted) log.error({ err: error, service }, `following ${service} ended: ${messageOf(error)}`);
    ready.reject(error);
  });
  // Who awaits it is told; nobody has to.
  ready.promise.catch(() => undefined);

  const waiting = new AbortController();
  await Promise.race([
    ready.promise,
    systemClock.sleep(waitMs, { signal: AbortSignal.any([signal, waiting.signal]) }),
  ]).finally(() => waiting.abort());

  return {
    get instances() {
      return instances;
    },
    get leader() {
      // Its end may be told before who leads instead.
      return leader === undefined ? undefined : byId.get(leader.id);
    },
    onChange(listener) {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    ready: ready.promise,
    get silentSinceMs() {
      return silentSinceMs();
    },
  };
}
