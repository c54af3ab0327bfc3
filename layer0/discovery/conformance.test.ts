import { silentLogger } from '@flynn/kit/log';
import { startServer } from '@flynn/kit/http-server';
import { createMemoryStore } from '@flynn/store/memory';
import { createDiscoveryClient } from './client.ts';
import { runConformance } from './conformance.ts';
import type { Subject } from './conformance.ts';
import { createRegistry } from './registry.ts';
import { discoveryHandlers } from './server.ts';

const log = silentLogger();

runConformance('the registry', async (): Promise<Subject> => {
  const store = createMemoryStore();
  const registry = await createRegistry({ store, log });
  return {
    register: async (registration) => void (await registry.register(registration)),
    deregister: ({ service, id }) => registry.deregister(service, id),
    instances: async (service) => registry.instances(service),
    subscribe: (service, options) => registry.subscribe(service, options),
    async [Symbol.asyncDispose]() {
      await registry[Symbol.asyncDispose]();
      await store.close();
    },
  };
});

runConformance('the HTTP client', async (): Promise<Subject> => {
  const stop = new AbortController();
  const store = createMemoryStore();
  const registry = await createRegistry({ store, log });
  const handlers = discoveryHandlers(registry, { log, signal: stop.signal });
  const server = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
  const client = createDiscoveryClient({ url: server.url });
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
      const { deregistered } = await client.register(registration, { signal: stop.signal });
      const key = `${registration.service}/${registration.id}`;
      held.set(key, [...(held.get(key) ?? []), { stop, deregistered }]);
    },
    deregister: ({ service, id }) => release(`${service}/${id}`),
    instances: (service) => client.instances(service),
    subscribe: (service, options) => client.subscribe(service, options),
    async [Symbol.asyncDispose]() {
      for (const key of held.keys()) await release(key);
      stop.abort();
      await client.close();
      await server.close();
      await registry[Symbol.asyncDispose]();
      await store.close();
    },
  };
});
