import { integer, secret } from '@flynn/kit/config';
import { metricsPort } from '@flynn/kit/metrics-server';
import { identityConfig } from '@flynn/kit/identity';
import { z } from 'zod';

export const configSchema = z.object({
  /** The cluster key, for the blob store. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  /** For the controller: what this service may do there, and nothing else. The cluster key stands in where there is none yet. */
  FLYNN_CONTROLLER_TOKEN: secret().optional(),
  /** Service discovery, on the host's gateway address. */
  FLYNN_DISCOVERY_URL: z.url(),
  /** The private key clients know this server by, in OpenSSH or PEM format. It has to stay the same for ever. */
  FLYNN_SSH_HOST_KEY: secret(),
  /** On a volume: what was pushed before makes the next push small. */
  FLYNN_REPOSITORY_DIR: z.string().startsWith('/').default('/data/repos'),
  /** SSH. */
  PORT: integer.default(2222),
  /** Where it serves its figures. */
  FLYNN_METRICS_PORT: integer.default(metricsPort),
});
