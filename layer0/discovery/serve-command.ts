/** `flynn-discovery serve`: discovery without a platform around it. */
import { FlynnError } from '@flynn/kit/errors';
import { startServer } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { connectEtcd } from '@flynn/store/etcd';
import { startDnsServer } from './dns.ts';
import { findAddress } from './instances.ts';
import { createMemoryRegistry } from './memory-registry.ts';
import { discoveryHandlers } from './server.ts';
import { createRegistry } from './store-registry.ts';

export type ServeOptions = {
  /** host:port. */
  listen: string;
  dns?: string;
  /** Without: in memory, and forgotten with the process. */
  etcd?: readonly string[];
  log: Logger;
  signal: AbortSignal;
};

/** Until the signal aborts. */
export async function serve({ listen, dns, etcd, log, signal }: ServeOptions): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const store = etcd === undefined ? undefined : stack.use(connectEtcd({ endpoints: [...etcd], log }));
  const registry = stack.use(
    store === undefined ? createMemoryRegistry({ log }) : await createRegistry({ store, log, signal }),
  );
  const { host, port } = placeOf(listen);
  const server = stack.use(
    await startServer({ name: 'discovery', handlers: discoveryHandlers(registry, { signal }), log, host, port }),
  );
  if (dns !== undefined) {
    const place = placeOf(dns);
    stack.use(await startDnsServer({ registry: () => registry, log, signal, address: place.host, port: place.port }));
  }
  log.info({ url: server.url, dns, store: etcd ?? 'memory' }, 'serving');
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}

function placeOf(text: string): { host: string; port: number } {
  const place = findAddress(text);
  if (place === undefined) throw new FlynnError('invalid', `"${text}" is not host:port`);
  return place;
}
