/** Discovery for the jobs of this host, over HTTP and over DNS: at the gateway of their network, and for the host itself. */
import { startDnsServer } from '@flynn/discovery/dns';
import type { Registry } from '@flynn/discovery/registry';
import { discoveryHandlers } from '@flynn/discovery/server';
import { startServer } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { parseUpstream } from './config.ts';

const httpPort = 1111;
const dnsPort = 53;

/** Resolves when both are served, until the signal aborts. `upstreams`: who resolves other names, else as the host does. */
export async function serveDiscovery(
  registry: Registry,
  options: Readonly<{ gateway: string; upstreams: readonly string[] | undefined; log: Logger; signal: AbortSignal }>,
): Promise<void> {
  const { gateway, log, signal } = options;
  const handlers = discoveryHandlers(registry, { signal });
  for (const host of [gateway, '127.0.0.1']) {
    await startServer({ name: 'discovery', handlers, log, host, port: httpPort, signal });
  }
  const upstreams = options.upstreams?.map(parseUpstream);
  const dns = { registry, log, signal, address: gateway, port: dnsPort };
  await startDnsServer({ ...dns, ...(upstreams === undefined ? {} : { upstreams }) });
}
