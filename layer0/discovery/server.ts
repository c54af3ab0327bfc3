/** Discovery over HTTP, for everything that has no connection to the store. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { retry } from '@flynn/kit/retry';
import type { ServerEvent } from '@flynn/kit/routes';
import { routes } from './api.ts';
import type { DiscoveryEvent } from './api.ts';
import { hasAttributes, parseWhere } from './instances.ts';
import type { Registry } from './registry.ts';

/**
 * What was announced over HTTP is on the registry's lease, and is taken back when not announced again within its TTL.
 * The timers are this process's: if it goes, so does its lease.
 */
export function discoveryHandlers(registry: Registry, options: { log: Logger; signal: AbortSignal }): Handler[] {
  const { log, signal } = options;
  const expiries = new Map<string, NodeJS.Timeout>();
  signal.addEventListener(
    'abort',
    () => {
      for (const timer of expiries.values()) clearTimeout(timer);
    },
    { once: true },
  );

  async function expire(service: string, id: string): Promise<void> {
    expiries.delete(`${service}/${id}`);
    log.info({ service, id }, 'not announced again in time: taking the instance back');
    try {
      await retry(() => registry.deregister(service, id), {
        what: `taking back ${service}/${id}`,
        signal,
        deadlineMs: 60_000,
      });
    } catch (error) {
      if (!signal.aborted)
        log.error({ err: error, service, id }, `could not take an expired instance back: ${messageOf(error)}`);
    }
  }

  function keepFor(ttlSeconds: number, service: string, id: string): void {
    clearTimeout(expiries.get(`${service}/${id}`));
    if (signal.aborted) return;
    const timer = setTimeout(() => void expire(service, id), ttlSeconds * 1_000);
    expiries.set(`${service}/${id}`, timer);
  }

  return [
    handle(routes.register, async ({ params, body }) => {
      // Before the write and after it: a write that fails half way must expire too.
      keepFor(body.ttlSeconds, params.service, params.instance);
      const instance = await registry.register({
        service: params.service,
        id: params.instance,
        address: body.address,
        attributes: body.attributes,
      });
      keepFor(body.ttlSeconds, params.service, params.instance);
      return instance;
    }),
    handle(routes.deregister, async ({ params }) => {
      clearTimeout(expiries.get(`${params.service}/${params.instance}`));
      expiries.delete(`${params.service}/${params.instance}`);
      await registry.deregister(params.service, params.instance);
    }),
    handle(routes.services, async () => [...registry.services()]),
    handle(routes.instances, async ({ params, query }) => {
      const where = query.where === undefined ? {} : parseWhere(query.where);
      return registry.instances(params.service).filter((instance) => hasAttributes(instance, where));
    }),
    handle(routes.leader, async ({ params }) => {
      const leader = registry.leader(params.service);
      if (leader === undefined) {
        throw new FlynnError('not_found', `no instance of ${params.service} is announced, so none leads`);
      }
      return leader;
    }),
    handle(routes.events, async (call) =>
      toServerEvents(registry.subscribe(call.params.service, { signal: AbortSignal.any([signal, call.signal]) })),
    ),
  ];
}

async function* toServerEvents(events: AsyncIterable<DiscoveryEvent>): AsyncGenerator<ServerEvent> {
  for await (const event of events) {
    if (event.event === 'current') yield { event: event.event, data: {} };
    else yield { event: event.event, data: event.instance ?? null };
  }
}
