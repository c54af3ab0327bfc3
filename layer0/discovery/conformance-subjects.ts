/** A registry, or the HTTP client of one, as the suite wants it. */
import { startServer } from '@flynn/kit/http-server';
import { HttpClient } from '@flynn/kit/http-client';
import { silentLogger } from '@flynn/kit/log';
import { routes } from './api.ts';
import { createDiscoveryClient } from './client.ts';
import type { Subject } from './conformance.ts';
import type { Registry } from './registry.ts';
import { discoveryHandlers } from './server.ts';

/** Disposes of the registry, then of what it stands on. */
export function registrySubject(registry: Registry, dispose: () => Promise<void>): Subject {
  return {
    register: async (registration) => void (await registry.register(registration)),
    announceFor: async (registration, ttlSeconds) => void (await registry.register(registration, { ttlSeconds })),
    deregister: ({ service, id }) => registry.deregister(service, id),
    services: async () => registry.services(),
    instances: async (service) => registry.instances(service),
    all: async () => registry.all(),
    leader: async (service) => registry.leader(service),
    chooseLeader: (service, choice) => registry.chooseLeader(service, choice),
    meta: async (service) => registry.meta(service),
    setMeta: (service, write) => registry.setMeta(service, write),
    removeMeta: (service) => registry.removeMeta(service),
    subscribe: (service, options) => registry.subscribe(service, options),
    subscribeAll: (options) => registry.subscribeAll(options),
    async [Symbol.asyncDispose]() {
      await registry[Symbol.asyncDispose]();
      await dispose();
    },
  };
}

/** The same of the client of a server of that registry. */
export async function clientSubject(registry: Registry, dispose = async (): Promise<void> => {}): Promise<Subject> {
  const stop = new AbortController();
  const handlers = discoveryHandlers(registry, { signal: stop.signal });
  const server = await startServer({ handlers, log: silentLogger(), host: '127.0.0.1', port: 0, name: 'discovery' });
  const client = createDiscoveryClient({ url: server.url });
  const http = new HttpClient({ baseUrl: server.url, name: 'discovery' });
  const held = new Map<string, { stop: AbortController; deregistered: Promise<void> }[]>();
  const release = async (key: string) => {
    const all = held.get(key) ?? [];
    held.delete(key);
    for (const one of all) one.stop.abort();
    await Promise.all(all.map((one) => one.deregistered));
  };
  return {
    async register(registration) {
      const stop = new AbortController();
      // Announced twice, it is renewed as each of them said, and here nobody is to hear of that.
      const { deregistered } = await client.register(registration, { signal: stop.signal, ttlSeconds: 300 });
      const key = `${registration.service}/${registration.id}`;
      held.set(key, [...(held.get(key) ?? []), { stop, deregistered }]);
    },
    async announceFor({ service, id, ...body }, ttlSeconds) {
      await http.call(routes.register, { params: { service, instance: id }, body: { ...body, ttlSeconds } });
    },
    deregister: ({ service, id }) => release(`${service}/${id}`),
    services: () => client.services(),
    instances: (service) => client.instances(service),
    all: () => client.all(),
    leader: (service) => client.leader(service),
    chooseLeader: (service, choice) => client.chooseLeader(service, choice),
    meta: (service) => client.meta(service),
    setMeta: (service, write) => client.setMeta(service, write),
    removeMeta: (service) => client.removeMeta(service),
    subscribe: (service, options) => client.subscribe(service, options),
    subscribeAll: (options) => client.subscribeAll(options),
    async [Symbol.asyncDispose]() {
      for (const key of held.keys()) await release(key);
      stop.abort();
      await client.close();
      await http.close();
      await server.close();
      await registry[Symbol.asyncDispose]();
      await dispose();
    },
  };
}
