import { integer, secret } from '@flynn/kit/config';
import { identityConfig } from '@flynn/kit/identity';
import { metricsPort } from '@flynn/kit/metrics-server';
import { z } from 'zod';

/** There is no key among it: what is asked of the controller is asked with the token of who logged in. */
export const configSchema = z.object({
  ...identityConfig,
  /** Service discovery, to find the controller. */
  FLYNN_DISCOVERY_URL: z.url().optional(),
  /** Instead of by discovery: for work on the pages, on a machine that is none of the cluster's. */
  FLYNN_CONTROLLER_URL: z.url().optional(),
  /** Where the pages are that the image was built with; without it they are built from the repository. */
  FLYNN_WEB_DIR: z.string().startsWith('/').optional(),
  /** What monitoring shows that wants figures: it opens nothing else, here or elsewhere. Without it there are none. */
  FLYNN_METRICS_TOKEN: secret().optional(),
  /** Where it serves its figures: routes do not lead there. */
  FLYNN_METRICS_PORT: integer.default(metricsPort),
  PORT: integer.default(8080),
});
