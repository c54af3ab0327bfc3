import { integer, secret } from '@flynn/kit/config';
import { identityConfig } from '@flynn/kit/identity';
import { z } from 'zod';

export const configSchema = z.object({
  /** The cluster key: whoever has it may read and write every blob. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  /** A directory on a volume that outlives the container. */
  FLYNN_STORAGE_DIR: z.string().startsWith('/').default('/data'),
  PORT: integer.default(8080),
});
