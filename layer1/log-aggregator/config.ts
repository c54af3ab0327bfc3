import { integer, secret } from '@flynn/kit/config';
import { identityConfig } from '@flynn/kit/identity';
import { z } from 'zod';

export const configSchema = z.object({
  /** The cluster key: whoever has it may read and write every app's lines. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  /** For the controller: what this service may do there, and nothing else. */
  FLYNN_CONTROLLER_TOKEN: secret().optional(),
  /** A directory on a volume that outlives the container. */
  FLYNN_STORAGE_DIR: z.string().startsWith('/').default('/data'),
  /** How much is kept of each app, and of all together, in MiB. */
  FLYNN_LOG_APP_MB: integer.pipe(z.int().min(1)).default(64),
  FLYNN_LOG_TOTAL_MB: integer.pipe(z.int().min(1)).default(1_024),
  /** Service discovery, to find the controller: it tells of deleted apps and of drains. Without it there are none. */
  FLYNN_DISCOVERY_URL: z.url().optional(),
  PORT: integer.default(8080),
});
