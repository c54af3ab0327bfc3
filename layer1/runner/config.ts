import { platformRunnerToken } from '@flynn/controller/operations/runner-token';
import { registrySettings } from '@flynn/controller/runner-env/settings';
import { booleanFlag, integer, secret } from '@flynn/kit/config';
import { newId } from '@flynn/kit/ids';
import { metricsPort } from '@flynn/kit/metrics-server';
import { identityConfig } from '@flynn/kit/identity';
import { z } from 'zod';
import type { Identity } from './registration.ts';

const version = '0.1.0';

const labels = z.string().transform((text, context) => {
  const pairs = text.split(',').map((pair) => pair.split('='));
  const read = pairs.map(([name = '', ...value]): [string, string] => [name.trim(), value.join('=').trim()]);
  if (pairs.every((pair) => pair.length > 1) && read.every(([name]) => name !== '')) return Object.fromEntries(read);
  context.addIssue({ code: 'custom', message: 'expected NAME=VALUE,NAME=VALUE' });
  return z.NEVER;
});

export const configSchema = z.object({
  /** The cluster key, for the blob store. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  /** For the controller: what this service may do there, and nothing else. The cluster key stands in where there is none yet. */
  FLYNN_CONTROLLER_TOKEN: secret().optional(),
  FLYNN_DISCOVERY_URL: z.url().default('http://127.0.0.1:1111'),
  /** The image slugs run on. */
  FLYNN_SLUG_RUNNER_IMAGE: z.string().min(1).default('flynn/slug-runner'),
  /** What the controller knows this runner by; by default its job, else its machine. */
  FLYNN_RUNNER_ID: z.string().min(1).optional(),
  /** Of a runner that is not the platform's: kept, so that nobody else can act as it. It waits to be adopted. */
  FLYNN_RUNNER_TOKEN: secret().min(16).optional(),
  /** `zone=a,gpu=yes`: what operations may ask of a runner. */
  FLYNN_RUNNER_LABELS: labels.optional(),
  /** Takes only operations that name it. */
  FLYNN_RUNNER_BY_ID_ONLY: booleanFlag.optional(),
  /** What "flynn runner env" sets counts more. */
  ...registrySettings,
  FLYNN_JOB_ID: z.string().min(1).optional(),
  HOSTNAME: z.string().min(1).optional(),
  /** Operations at a time. */
  FLYNN_RUNNER_SLOTS: integer.pipe(z.int().min(1).max(64)).default(2),
  /** Where it serves its figures. */
  FLYNN_METRICS_PORT: integer.default(metricsPort),
});
type Config = z.output<typeof configSchema>;

export function runnerIdOf(config: Config): string {
  return config.FLYNN_RUNNER_ID ?? config.FLYNN_JOB_ID ?? config.HOSTNAME ?? newId();
}

export function identityOf(config: Config): Identity {
  const id = runnerIdOf(config);
  return {
    id,
    token: config.FLYNN_RUNNER_TOKEN ?? platformRunnerToken(config.FLYNN_KEY, id),
    labels: config.FLYNN_RUNNER_LABELS ?? {},
    isByIdOnly: config.FLYNN_RUNNER_BY_ID_ONLY ?? false,
    version,
    slots: config.FLYNN_RUNNER_SLOTS,
  };
}
