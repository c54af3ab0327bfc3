/** Discovery for processes that reach it over HTTP only: all of Layer 1. */
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import type { Logger } from '@flynn/kit/log';
import { neverSent } from '@flynn/kit/never-sent';
import { backoffMs, raceAbort, retry, waitFor, withDeadline } from '@flynn/kit/retry';
import { pause } from '@flynn/kit/clock';
import type { ServerEvent } from '@flynn/kit/routes';
import { routes } from './api.ts';
import type { DiscoveryEvent, Instance, LeaderChoice, ServiceMeta } from './api.ts';
import type { MetaWrite, Registration } from './registry.ts';
import { KnownServices } from './service-state.ts';
import { decodeDiscoveryEvent } from './wire.ts';
import { openServiceSet } from './service-set.ts';
import type { ServiceSet } from './service-set.ts';

const takeBackMs = 5_000;

export interface DiscoveryClient extends AsyncDisposable {
  /**
   * Resolves once the instance is announced, retrying as long as discovery cannot be reached; renews it until the signal
   * aborts, then takes it back: `deregistered` settles when that is done, or given up after 5 s (its TTL ends it then).
   * Throws `invalid` for a registration that can never succeed, and `denied` for one that is not this process's to make; if it is
   * refused so later, as when an app has taken its name, it is renewed no more, and `deregistered` rejects with that. Throws
   * once the signal aborts before it was answered, too: then what may have been announced was taken back.
   */
  register(
    registration: Registration,
    options: { signal: AbortSignal; ttlSeconds?: number; log?: Logger },
  ): Promise<{ deregistered: Promise<void> }>;
  services(options?: { signal?: AbortSignal }): Promise<readonly { name: string; instances: number }[]>;
  /** Oldest first. `where` keeps those that have all of these attributes. */
  instances(
    service: string,
    options?: { signal?: AbortSignal; where?: Record<string, string> },
  ): Promise<readonly Instance[]>;
  /** Of all services: by service, then oldest first. */
  all(options?: { signal?: AbortSignal; where?: Record<string, string> }): Promise<readonly Instance[]>;
  leader(service: string, options?: { signal?: AbortSignal }): Promise<Instance | undefined>;
  chooseLeader(service: string, choice: LeaderChoice, options?: { signal?: AbortSignal }): Promise<void>;
  meta(service: string, options?: { signal?: AbortSignal }): Promise<ServiceMeta | undefined>;
  /** Compares before it writes, as the registry does. */
  setMeta(service: string, write: MetaWrite, options?: { signal?: AbortSignal }): Promise<ServiceMeta>;
  removeMeta(service: string, options?: { signal?: AbortSignal }): Promise<void>;
  /**
   * The current set, `current`, then changes until the signal aborts. Connects again for ever; after that only what
   * really changed is told, and `current` again.
   */
  subscribe(service: string, options: { signal: AbortSignal; log?: Logger }): AsyncIterable<DiscoveryEvent>;
  /** The same of all services. */
  subscribeAll(options: { signal: AbortSignal; log?: Logger }): AsyncIterable<DiscoveryEvent>;
  openServiceSet(service: string, options: { signal: AbortSignal; log?: Logger }): Promise<ServiceSet>;
  /** One instance, any of those that fit. Throws `unavailable` if there is none by the deadline (default 10 s). */
  resolve(
    service: string,
    options?: { signal?: AbortSignal; deadlineMs?: number; where?: Record<string, string> },
  ): Promise<Instance>;
  close(): Promise<void>;
}

type FollowOptions = {
  signal: AbortSignal;
  log?: Logger;
  /** Called once all is told, and false once the connection is broken after that. */
  onTouch?: (isTold: boolean) => void;
};

/** `url` is a discovery server: the gateway of the host, port 1111. */
export function createDiscoveryClient(options: { url: string; name?: string }): DiscoveryClient {
  const http = new HttpClient({ baseUrl: options.url, name: options.name ?? 'service discovery', timeoutMs: 5_000 });

  async function instances(
    service: string,
    { signal, where = {} }: { signal?: AbortSignal; where?: Record<string, string> } = {},
  ): Promise<readonly Instance[]> {
    return http.call(routes.instances, { params: { service }, query: conditions(where) }, until(signal));
  }

  async function* follow(
    connect: (signal: AbortSignal) => AsyncIterable<ServerEvent>,
    { signal, log = silentLogger(), onTouch }: FollowOptions,
  ): AsyncGenerator<DiscoveryEvent> {
    const told = new KnownServices();
    let failures = 0;
    while (!signal.aborted) {
      // What comes before `current` is put beside what was told before the connection broke.
      let fresh: KnownServices | undefined = new KnownServices();
      try {
        for await (const message of connect(signal)) {
          const event = decodeDiscoveryEvent(message);
          if (event === undefined) continue;
          if (fresh === undefined) {
            if (told.apply(event)) yield event;
          } else if (event.event === 'current') {
            if (failures > 0) log.info('service discovery is there again');
            failures = 0;
            onTouch?.(true);
            const events = told.catchUp(fresh.services);
            fresh = undefined;
            yield* events;
            yield event;
          } else fresh.apply(event);
        }
      } catch (error) {
        if (hasCode(error, 'invalid', 'not_found', 'denied')) throw error;
        if (!signal.aborted) {
          const message = 'no connection to service discovery: what was last known stays in force';
          log[failures === 0 ? 'warn' : 'debug']({ err: error }, message);
        }
      } finally {
        if (fresh === undefined) onTouch?.(false);
      }
      if (signal.aborted) return;
      await pause(backoffMs(failures, { minMs: 100, maxMs: 2_000 }), signal);
      failures += 1;
    }
  }

  const subscribe = (service: string, options: FollowOptions) =>
    follow((signal) => http.events(routes.events, { params: { service } }, { signal }), options);

  return {
    async register(registration, { signal, ttlSeconds = 10, log = silentLogger() }) {
      const { service, id, address, attributes = {} } = registration;
      const params = { service, instance: id };
      let underWay = Promise.resolve();
      let mayBeThere = false;
      // Not cut off when the signal aborts: it might be carried out after what takes it back.
      const announce = (): Promise<unknown> => {
        const asked = http.call(routes.register, { params, body: { address, attributes, ttlSeconds } });
        underWay = asked.then(
          () => void (mayBeThere = true),
          (error: unknown) => void (mayBeThere ||= !neverSent(error instanceof Error ? error.cause : undefined)),
        );
        return asked;
      };
      const takeBack = async (): Promise<void> => {
        try {
          const until = withDeadline(takeBackMs);
          await raceAbort(underWay, until);
          if (!mayBeThere) return;
          await retry((signal) => http.call(routes.deregister, { params }, { signal }), {
            what: `taking back ${service}/${id}`,
            deadlineMs: takeBackMs,
            signal: until,
          });
        } catch (error) {
          log.warn(
            { err: error, service, id },
            `could not take the announcement back: it ends by itself within ${ttlSeconds} s`,
          );
        }
      };
      const isRetryable = (error: unknown) => !hasCode(error, 'invalid', 'denied', 'unauthenticated');
      try {
        await retry(announce, {
          what: `announcing ${service}/${id}`,
          signal,
          deadlineMs: 2 ** 31 - 1,
          maxMs: 2_000,
          isRetryable,
        });
      } catch (error) {
        if (signal.aborted) await takeBack();
        throw error;
      }
      const renew = async () => {
        let isDown = false;
        while (!signal.aborted) {
          await pause((ttlSeconds * 1_000) / (isDown ? 10 : 3), signal);
          if (signal.aborted) break;
          try {
            await raceAbort(announce(), signal);
            isDown = false;
          } catch (error) {
            if (!isRetryable(error) && !signal.aborted) throw error;
            if (!isDown && !signal.aborted)
              log.warn({ err: error, service, id }, 'could not renew the announcement, trying again');
            isDown = true;
          }
        }
        await takeBack();
      };
      const deregistered = renew();
      // Who awaits it is told; nobody has to.
      deregistered.catch(() => undefined);
      return { deregistered };
    },
    services: ({ signal } = {}) => http.call(routes.services, {}, until(signal)),
    instances,
    all: ({ signal, where = {} } = {}) => http.call(routes.all, { query: conditions(where) }, until(signal)),
    leader: (service, { signal } = {}) =>
      unlessMissing(http.call(routes.leader, { params: { service } }, until(signal))),
    chooseLeader: (service, choice, { signal } = {}) =>
      http.call(routes.chooseLeader, { params: { service }, body: choice }, until(signal)),
    meta: (service, { signal } = {}) => unlessMissing(http.call(routes.meta, { params: { service } }, until(signal))),
    setMeta: (service, write, { signal } = {}) =>
      http.call(routes.setMeta, { params: { service }, body: write }, until(signal)),
    removeMeta: (service, { signal } = {}) => http.call(routes.removeMeta, { params: { service } }, until(signal)),
    subscribe,
    subscribeAll: (options) => follow((signal) => http.events(routes.allEvents, {}, { signal }), options),
    openServiceSet(service, options) {
      let silentSinceMs: number | undefined = Date.now();
      const onTouch = (isTold: boolean) => void (silentSinceMs = isTold ? undefined : Date.now());
      const events = subscribe(service, { ...options, onTouch });
      return openServiceSet(events, { ...options, service, silentSinceMs: () => silentSinceMs });
    },
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

function until(signal: AbortSignal | undefined): { signal?: AbortSignal } {
  return signal === undefined ? {} : { signal };
}

function conditions(where: Record<string, string>): Record<`attr.${string}`, string> {
  return Object.fromEntries(Object.entries(where).map(([name, value]) => [`attr.${name}`, value]));
}

async function unlessMissing<T>(answer: Promise<T>): Promise<T | undefined> {
  try {
    return await answer;
  } catch (error) {
    if (hasCode(error, 'not_found')) return undefined;
    throw error;
  }
}
