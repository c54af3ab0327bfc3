/** Discovery for the jobs of this host, over HTTP and over DNS: at the gateway of their network, and for the host itself. */
import { startDnsServer } from '@flynn/discovery/dns';
import type { Registry } from '@flynn/discovery/registry';
import { discoveryHandlers } from '@flynn/discovery/server';
import { startServer } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import type { IncomingMessage } from 'node:http';
import { parseUpstream } from '../config.ts';
import type { Container } from '../engine/engine.ts';
import { askerAt, checkMayChange } from './askers.ts';

const httpPort = 1111;
const dnsPort = 53;

type Served = Readonly<{ gateway: string; log: Logger; signal: AbortSignal }>;

/** Of one job, and of all that are no part of the platform: each may be a reader that does not read. */
const maxConnections = { ofOne: 32, ofAll: 512 } as const;

/** Over HTTP. Resolves when it is served, until the signal aborts. */
export async function serveDiscovery(
  registry: Registry,
  {
    gateway,
    containers,
    log,
    signal,
    port = httpPort,
  }: Served & Readonly<{ containers: () => readonly Container[]; port?: number }>,
): Promise<void> {
  const handlers = discoveryHandlers(registry, { signal });
  const askerOf = (address: string) => askerAt(address, gateway, containers());
  const options = {
    name: 'discovery',
    handlers,
    // Before a body is read.
    elsewhere: ({ method, socket }: IncomingMessage) => {
      if (method !== 'GET' && method !== 'HEAD') checkMayChange(askerOf(socket.remoteAddress ?? ''));
      return undefined;
    },
    // Routers follow each service that a route names by a connection of its own.
    maxConnections: { ...maxConnections, isExempt: (address: string) => ['host', 'part'].includes(askerOf(address)) },
    log,
    signal,
  };
  for (const host of [gateway, '127.0.0.1']) await startServer({ ...options, host, port });
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
