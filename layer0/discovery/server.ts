/** Discovery over HTTP, for everything that has no connection to the store. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { ServerEvent } from '@flynn/kit/routes';
import { routes } from './api.ts';
import type { DiscoveryEvent, Instance } from './api.ts';
import {
  HeardInstances,
  checkAttributes,
  checkInstance,
  checkLasting,
  checkMeta,
  checkService,
  checkTakingBack,
  ownerOf,
} from './heard.ts';
import { hasAttributes } from './instances.ts';
import { checkRegistration } from './registration.ts';
import type { Registry } from './registry.ts';
import { encodeDiscoveryEvent } from './wire.ts';

/** What everybody may read, and whoever the server lets write may change. The signal ends the event streams. */
export function discoveryHandlers(registry: Registry, options: { signal: AbortSignal }): Handler[] {
  const until = (signal: AbortSignal) => ({ signal: AbortSignal.any([options.signal, signal]) });
  const heard = new HeardInstances(() => performance.now());
  return [
    handle(routes.register, async ({ params, body: { address, attributes, ttlSeconds }, remoteAddress }) => {
      const { service, instance: id } = params;
      checkAttributes(attributes);
      checkService(service, registry);
      checkInstance(service, id, registry);
      const registration = checkRegistration({ service, id, address, attributes });
      heard.note(remoteAddress, service, id, ttlSeconds);
      return registry.register(registration, { ttlSeconds });
    }),
    handle(routes.deregister, async ({ params: { service, instance: id } }) => {
      checkTakingBack(service, id, registry);
      await registry.deregister(service, id);
      heard.forget(service, id);
    }),
    handle(routes.services, async () => [...registry.services()]),
    handle(routes.instances, async ({ params, query }) => pick(registry.instances(params.service), query)),
    handle(routes.all, async ({ query }) => pick(registry.all(), query)),
    handle(routes.leader, async ({ params: { service } }) => {
      const leader = registry.leader(service);
      if (leader === undefined) throw nobodyLeads(registry, service);
      return leader;
    }),
    handle(routes.chooseLeader, async ({ params: { service }, body }) => {
      // To what it is without anybody's doing it may be put back by all who may write.
      if (body.by === 'manual') {
        checkService(service, registry);
        checkLasting(service, registry);
      }
      await registry.chooseLeader(service, body);
    }),
    handle(routes.meta, async ({ params: { service } }) => {
      const meta = registry.meta(service);
      if (meta === undefined) throw new FlynnError('not_found', `nothing was written as the meta of ${service} yet`);
      return meta;
    }),
    handle(routes.setMeta, async ({ params: { service }, body }) => {
      checkService(service, registry);
      checkMeta(service, body.data, registry);
      return registry.setMeta(service, body);
    }),
    handle(routes.removeMeta, async ({ params: { service } }) => registry.removeMeta(service)),
    handle(routes.events, async (call) => encodeAll(registry.subscribe(call.params.service, until(call.signal)))),
    handle(routes.allEvents, async (call) => encodeAll(registry.subscribeAll(until(call.signal)))),
  ];
}

/** The condition `attr.zone` is about the attribute `zone`. */
function pick(list: readonly Instance[], query: Record<string, string>): Instance[] {
  const where = Object.fromEntries(Object.entries(query).map(([name, value]) => [name.slice('attr.'.length), value]));
  return list.filter((instance) => hasAttributes(instance, where));
}

function nobodyLeads(registry: Registry, service: string): FlynnError {
  const choice = registry.leaderChoice(service);
  // Another is chosen only where the service is nobody's own.
  const remedy =
    ownerOf(service, registry) === undefined ? 'choose another, or {"by":"oldest"}' : 'choose {"by":"oldest"}';
  const why =
    choice.by === 'manual' && registry.instances(service).length > 0
      ? `${choice.instance} was chosen to lead ${service} and is not announced: ${remedy}`
      : `no instance of ${service} is announced, so none leads`;
  return new FlynnError('not_found', why);
}

async function* encodeAll(events: AsyncIterable<DiscoveryEvent>): AsyncGenerator<ServerEvent> {
  for await (const event of events) yield encodeDiscoveryEvent(event);
}
