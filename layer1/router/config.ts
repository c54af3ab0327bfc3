import { integer, secret } from '@flynn/kit/config';
import { z } from 'zod';
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
  /** Processes that share its ports; 0 is one for each core, up to 4, as far as the memory it may use reaches. */
  FLYNN_ROUTER_WORKERS: integer.default(0),
  /** Set by the router itself for each of them. */
  FLYNN_ROUTER_WORKER: integer.optional(),
  /** Where the router tells how it is: /ping and /status. */
  PORT: integer.default(5000),
});
