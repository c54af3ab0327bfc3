import { integer, secret } from '@flynn/kit/config';
import { newId } from '@flynn/kit/ids';
import { z } from 'zod';

export const configSchema = z.object({
  /** The cluster key, for the blob store. */
  FLYNN_KEY: secret(),
  /** For the controller: what this service may do there, and nothing else. The cluster key stands in where there is none yet. */
  FLYNN_CONTROLLER_TOKEN: secret().optional(),
  FLYNN_DISCOVERY_URL: z.url().default('http://127.0.0.1:1111'),
  /** The image slugs run on. */
  FLYNN_SLUG_RUNNER_IMAGE: z.string().min(1).default('flynn/slug-runner'),
  /** What the controller knows this runner by; by default its job, else its machine. */
  FLYNN_RUNNER_ID: z.string().min(1).optional(),
  FLYNN_JOB_ID: z.string().min(1).optional(),
  HOSTNAME: z.string().min(1).optional(),
  /** Operations at a time. */
  FLYNN_RUNNER_SLOTS: integer.pipe(z.int().min(1).max(64)).default(2),
});

export function runnerIdOf(config: z.output<typeof configSchema>): string {
  return config.FLYNN_RUNNER_ID ?? config.FLYNN_JOB_ID ?? config.HOSTNAME ?? newId();
}
