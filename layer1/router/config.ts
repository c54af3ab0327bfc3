import { integer, secret } from '@flynn/kit/config';
import { z } from 'zod';

export const configSchema = z.object({
  /** The cluster key, for reading the status. */
  FLYNN_KEY: secret(),
  /** For the controller: what this service may do there, and nothing else. The cluster key stands in where there is none yet. */
  FLYNN_CONTROLLER_TOKEN: secret().optional(),
  /** Service discovery, on the host's gateway address. */
  FLYNN_DISCOVERY_URL: z.url(),
  /** Where requests come in. */
  FLYNN_HTTP_PORT: integer.default(80),
  /** A folder in which the last known routes and backends are kept for the next start; shared with other routers of the host. */
  FLYNN_STATE_DIR: z.string().optional(),
  /** Where the router tells how it is: /ping and /status. */
  PORT: integer.default(5000),
});
