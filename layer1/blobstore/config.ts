import { integer, secret } from '@flynn/kit/config';
import { identityConfig } from '@flynn/kit/identity';
import { z } from 'zod';

export const configSchema = z.object({
  /** The cluster key: whoever has it may read and write every blob. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  /** A directory on a volume that outlives the container. */
  FLYNN_STORAGE_DIR: z.string().startsWith('/').default('/data'),
  /** Where the volume is, and service discovery, to find the other stores. Without them there are none. */
  FLYNN_HOST_ID: z.string().default('this host'),
  FLYNN_DISCOVERY_URL: z.url().optional(),
  /** How fast copies are taken over from other stores, in MiB a second. */
  FLYNN_COPY_MB_PER_SECOND: integer.pipe(z.int().min(1)).default(32),
  PORT: integer.default(8080),
});
