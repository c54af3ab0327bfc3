/** Discovery for processes that reach it over HTTP only: all of Layer 1. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import type { Logger } from '@flynn/kit/log';
import { retry, waitFor } from '@flynn/kit/retry';
import { systemClock } from '@flynn/kit/clock';
import { instanceSchema, routes } from './api.ts';
import type { DiscoveryEvent, Instance } from './api.ts';
import { diffInstances, formatWhere } from './instances.ts';
import type { InstanceSet } from './instances.ts';
import type { Registration } from './registry.ts';
import { openServiceSet } from './service-set.ts';
import type { ServiceSet } from './service-set.ts';

export interface DiscoveryClient extends AsyncDisposable {
  /**
   * Resolves once the instance is announced, retrying as long as discovery cannot be reached; renews it until the signal
   * aborts, then takes it back: `deregistered` settles when that is done, or given up after 5 s (its TTL ends it then).
   * Throws `invalid` for a registration that can never succeed.
   */
  register(
    registration: Registration,
    options: { signal: AbortSignal; ttlSeconds?: number; log?: Logger },
  ): Promise<{ deregistered: Promise<void> }>;
  /** Oldest first: the first one leads. */
  instances(
    service: string,
    options?: { signal?: AbortSignal; where?: Record<string, string> },
  ): Promise<readonly Instance[]>;
  /**
   * The current set, `current`, then changes until the signal aborts. Connects again for ever; after that only what
   * really changed is told, and `current` again.
   */
  subscribe(service: string, options: { signal: AbortSignal; log?: Logger }): AsyncIterable<DiscoveryEvent>;
  openServiceSet(service: string, options: { signal: AbortSignal; log?: Logger }): Promise<ServiceSet>;
  /** One instance, any of those that fit. Throws `unavailable` if there is none by the deadline (default 10 s). */
  resolve(
    service: string,
    options?: { signal?: AbortSignal; deadlineMs?: number; where?: Record<string, string> },
  ): Promise<Instance>;
  close(): Promise<void>;
}

/** `url` is a discovery server: the gateway of the host, port 1111. */
export function createDiscoveryClient(options: { url: string; name?: string }): DiscoveryClient {
  const http = new HttpClient({ baseUrl: options.url, name: options.name ?? 'service discovery', timeoutMs: 5_000 });

  async function instances(
    service: string,
    { signal, where = {} }: { signal?: AbortSignal; where?: Record<string, string> } = {},
  ): Promise<readonly Instance[]> {
    const condition = formatWhere(where);
    return http.call(
      routes.instances,
      { params: { service }, query: condition === '' ? {} : { where: condition } },
      signal === undefined ? {} : { signal },
    );
  }

  async function* subscribe(
    service: string,
    { signal, log = silentLogger() }: { signal: AbortSignal; log?: Logger },
  ): AsyncGenerator<DiscoveryEvent> {
    let told: InstanceSet = new Map();
    let failures = 0;
    while (!signal.aborted) {
      let full: Map<string, Instance> | undefined = new Map();
      try {
        for await (const { event, data } of http.events(routes.events, { params: { service } }, { signal })) {
          if (event === 'current' && full !== undefined) {
            failures = 0;
            yield* diffInstances(told, full);
            told = full;
            full = undefined;
            yield { event: 'current' };
          } else if (event === 'up' || event === 'update' || event === 'down') {
            const instance = instanceSchema.parse(data);
            const next: Map<string, Instance> = full ?? new Map(told);
            if (event === 'down') next.delete(instance.id);
            else next.set(instance.id, instance);
            if (full === undefined) {
              yield* diffInstances(told, next);
              told = next;
            }
          }
          // `leader` follows from the set.
        }
      } catch (error) {
        if (hasCode(error, 'invalid', 'not_found', 'denied')) throw error;
        if (!signal.aborted) log.debug({ err: error, service }, 'lost the connection to service discovery');
      }
      if (signal.aborted) return;
      failures += 1;
      await pause(Math.min(2_000, 50 * 2 ** Math.min(failures, 6)) * (0.5 + Math.random() / 2), signal);
    }
  }

  return {
    async register(registration, { signal, ttlSeconds = 10, log = silentLogger() }) {
      const { service, id, address, attributes = {} } = registration;
      const params = { service, instance: id };
      const announce = (signal: AbortSignal) =>
        http.call(routes.register, { params, body: { address, attributes, ttlSeconds } }, { signal });
      const isRetryable = (error: unknown) => !hasCode(error, 'invalid', 'denied', 'unauthenticated');
      await retry(announce, {
        what: `announcing ${service}/${id}`,
        signal,
        deadlineMs: 2 ** 31 - 1,
        maxMs: 2_000,
        isRetryable,
      });
      const renew = async () => {
        let isDown = false;
        while (!signal.aborted) {
          await pause((ttlSeconds * 1_000) / (isDown ? 10 : 3), signal);
          if (signal.aborted) break;
          try {
            await announce(signal);
            isDown = false;
          } catch (error) {
            if (!isDown && !signal.aborted)
              log.warn({ err: error, service, id }, 'could not renew the announcement, trying again');
            isDown = true;
          }
        }
        try {
          await retry((signal) => http.call(routes.deregister, { params }, { signal }), {
            what: `taking back ${service}/${id}`,
            deadlineMs: 5_000,
          });
        } catch (error) {
          log.warn(
            { err: error, service, id },
            `could not take the announcement back: it ends by itself within ${ttlSeconds} s`,
          );
        }
      };
      return { deregistered: renew() };
    },
    instances,
    subscribe,
    openServiceSet: (service, options) => openServiceSet(subscribe(service, options), { ...options, service }),
    async resolve(service, { signal, deadlineMs = 10_000, where = {} } = {}) {
      try {
        return await waitFor(
          async () => {
            const all = await instances(service, { where, ...(signal === undefined ? {} : { signal }) });
            return all[Math.floor(Math.random() * all.length)];
          },
          {
            what: `an instance of ${service}`,
            deadlineMs,
            intervalMs: 100,
            ...(signal === undefined ? {} : { signal }),
          },
        );
      } catch (error) {
        if (!hasCode(error, 'timeout')) throw error;
        throw new FlynnError('unavailable', `no instance of ${service} was announced within ${deadlineMs / 1_000} s`, {
          cause: error,
        });
      }
    },
    close: () => http.close(),
    [Symbol.asyncDispose]: () => http.close(),
  };
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await systemClock.sleep(ms, { signal });
  } catch (error) {
    // Woken by the signal, which the caller looks at next.
    if (!signal.aborted) throw error;
  }
}
