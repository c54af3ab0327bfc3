/** Discovery over HTTP, for everything that has no connection to the store. */
import { FlynnError } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { ServerEvent } from '@flynn/kit/routes';
import { routes } from './api.ts';
import type { DiscoveryEvent, Instance } from './api.ts';
import { hasAttributes } from './instances.ts';
import { identityAttribute } from './parts.ts';
import type { Registry } from './registry.ts';
import { encodeDiscoveryEvent } from './wire.ts';

/** The signal ends the event streams. */
export function discoveryHandlers(registry: Registry, options: { signal: AbortSignal }): Handler[] {
  const until = (signal: AbortSignal) => ({ signal: AbortSignal.any([options.signal, signal]) });
  return [
    handle(routes.register, async ({ params, body: { address, attributes, ttlSeconds } }) => {
      refuseReserved(attributes);
      refusePlatforms(registry.instances(params.service));
      return registry.register({ service: params.service, id: params.instance, address, attributes }, { ttlSeconds });
    }),
    handle(routes.deregister, async ({ params }) => registry.deregister(params.service, params.instance)),
    handle(routes.services, async () => [...registry.services()]),
    handle(routes.instances, async ({ params, query }) => pick(registry.instances(params.service), query)),
    handle(routes.all, async ({ query }) => pick(registry.all(), query)),
    handle(routes.leader, async ({ params: { service } }) => {
      const leader = registry.leader(service);
      if (leader === undefined) throw nobodyLeads(registry, service);
      return leader;
    }),
    handle(routes.chooseLeader, async ({ params, body }) => registry.chooseLeader(params.service, body)),
    handle(routes.meta, async ({ params: { service } }) => {
      const meta = registry.meta(service);
      if (meta === undefined) throw new FlynnError('not_found', `nothing was written as the meta of ${service} yet`);
      return meta;
    }),
    handle(routes.setMeta, async ({ params, body }) => registry.setMeta(params.service, body)),
    handle(routes.events, async (call) => encodeAll(registry.subscribe(call.params.service, until(call.signal)))),
    handle(routes.allEvents, async (call) => encodeAll(registry.subscribeAll(until(call.signal)))),
  ];
}

/** Builds have discovery's API too: what is sent to a part of the platform is not theirs to ask for. */
function refusePlatforms(instances: readonly Instance[]): void {
  const known = instances.find(({ attributes }) => identityAttribute in attributes);
  if (known === undefined) return;
  throw new FlynnError('denied', `${known.service} is a service of the platform: its host agents alone announce it`);
}

/** Who may reach an instance, and as whom it is known, follows from these: only host agents say them, of what they run. */
const reserved = ['flynn.group', identityAttribute];

function refuseReserved(attributes: Record<string, string>): void {
  const given = reserved.find((name) => name in attributes);
  if (given !== undefined) {
    throw new FlynnError('denied', `the attribute ${given} is given by host agents: announce without it`);
  }
}

/** The condition `attr.zone` is about the attribute `zone`. */
function pick(list: readonly Instance[], query: Record<string, string>): Instance[] {
  const where = Object.fromEntries(Object.entries(query).map(([name, value]) => [name.slice('attr.'.length), value]));
  return list.filter((instance) => hasAttributes(instance, where));
}

function nobodyLeads(registry: Registry, service: string): FlynnError {
  const choice = registry.leaderChoice(service);
  const why =
    choice.by === 'manual' && registry.instances(service).length > 0
      ? `${choice.instance} was chosen to lead ${service} and is not announced: choose another, or {"by":"oldest"}`
      : `no instance of ${service} is announced, so none leads`;
  return new FlynnError('not_found', why);
}

async function* encodeAll(events: AsyncIterable<DiscoveryEvent>): AsyncGenerator<ServerEvent> {
  for await (const event of events) yield encodeDiscoveryEvent(event);
}
