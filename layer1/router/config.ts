import { integer, secret } from '@flynn/kit/config';
import { z } from 'zod';

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
  /** Where the router tells how it is: /ping and /status. */
  PORT: integer.default(5000),
});
