import type { BlockList } from 'node:net';
import { integer, secret } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { parseNetworks } from './proxy-protocol/acceptance.ts';
import { tlsProfiles } from './tls/profile.ts';

const driverSchema = z.enum(['fast', 'http-proxy']);
export type Driver = z.output<typeof driverSchema>;

export const configSchema = z.object({
  /** The cluster key, for reading the status. */
  FLYNN_KEY: secret(),
  /** For the controller: what this service may do there, and nothing else. The cluster key stands in where there is none yet. */
  FLYNN_CONTROLLER_TOKEN: secret().optional(),
  /** Service discovery, on the host's gateway address. */
  FLYNN_DISCOVERY_URL: z.url(),
  /** Where requests come in. */
  FLYNN_HTTP_PORT: integer.default(80),
  /** Who speaks HTTP/1: `fast` is the router's own front on sockets, `http-proxy` the slower one on node:http. */
  FLYNN_ROUTER_DRIVER: driverSchema.default('fast'),
  /** Where requests over TLS come in. */
  FLYNN_HTTPS_PORT: integer.default(443),
  /** What is spoken there: TLS 1.3 and 1.2 with authenticated ciphers, also 1.2 with older ones, or from 1.0 on. */
  FLYNN_TLS_PROFILE: z.enum(tlsProfiles).default('modern'),
  /** Whether load balancers in front say whom a connection is from, by the PROXY protocol. */
  FLYNN_PROXY_PROTOCOL: z.enum(['off', 'on']).default('off'),
  /** Their addresses or networks, with commas; nobody else is believed. */
  FLYNN_TRUSTED_PROXIES: z.string().default(''),
  /** Where the router tells how it is: /ping and /status. */
  PORT: integer.default(5000),
});

/** Throws `invalid` for what would believe nobody, or everybody by mistake. */
export function trustedProxiesOf(
  config: Pick<z.output<typeof configSchema>, 'FLYNN_PROXY_PROTOCOL' | 'FLYNN_TRUSTED_PROXIES'>,
): { trustedProxies?: BlockList } {
  const isOn = config.FLYNN_PROXY_PROTOCOL === 'on';
  const isGiven = config.FLYNN_TRUSTED_PROXIES.trim() !== '';
  if (isOn !== isGiven) {
    throw new FlynnError(
      'invalid',
      'FLYNN_PROXY_PROTOCOL=on and FLYNN_TRUSTED_PROXIES go together: say whose word is taken, or leave both out',
    );
  }
  return isOn ? { trustedProxies: parseNetworks(config.FLYNN_TRUSTED_PROXIES) } : {};
}
