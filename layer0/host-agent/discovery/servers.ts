/** Discovery for the jobs of this host, over HTTP and over DNS: at the gateway of their network, and for the host itself. */
import { startDnsServer } from '@flynn/discovery/dns';
import type { Registry } from '@flynn/discovery/registry';
import { discoveryHandlers } from '@flynn/discovery/server';
import { startServer } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { parseUpstream } from '../config.ts';

const httpPort = 1111;
const dnsPort = 53;

type Served = Readonly<{ gateway: string; log: Logger; signal: AbortSignal }>;

/** Over HTTP. Resolves when it is served, until the signal aborts. */
export async function serveDiscovery(registry: Registry, { gateway, log, signal }: Served): Promise<void> {
  const handlers = discoveryHandlers(registry, { signal });
  for (const host of [gateway, '127.0.0.1']) {
    await startServer({ name: 'discovery', handlers, log, host, port: httpPort, signal });
  }
}

/**
 * Over DNS, which is all that jobs have for the names of the world outside, too: so it is there before there is a registry.
 * `upstreams`: who resolves other names, else as the host does. Resolves when it is served, until the signal aborts.
 */
export async function serveNames(
  registry: () => Registry | undefined,
  { gateway, log, signal, ...options }: Served & Readonly<{ upstreams: readonly string[] | undefined }>,
): Promise<void> {
  const upstreams = options.upstreams?.map(parseUpstream);
  const dns = { registry, log, signal, address: gateway, port: dnsPort };
  await startDnsServer({ ...dns, ...(upstreams === undefined ? {} : { upstreams }) });
}
