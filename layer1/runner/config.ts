import { platformRunnerToken } from '@flynn/controller/operations/runner-token';
import { list, registrySettings } from '@flynn/controller/runner-env/settings';
import { certificatesIn } from '@flynn/kit/certificate';
import { booleanFlag, integer, secret } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { newId } from '@flynn/kit/ids';
import { metricsPort } from '@flynn/kit/metrics-server';
import { identityConfig } from '@flynn/kit/identity';
import { z } from 'zod';
import type { Identity } from './registration.ts';
import type { OwnRegistries } from './registry/access.ts';

const version = '0.1.0';

const labels = z.string().transform((text, context) => {
  const pairs = text.split(',').map((pair) => pair.split('='));
  const read = pairs.map(([name = '', ...value]): [string, string] => [name.trim(), value.join('=').trim()]);
  if (pairs.every((pair) => pair.length > 1) && read.every(([name]) => name !== '')) return Object.fromEntries(read);
  context.addIssue({ code: 'custom', message: 'expected NAME=VALUE,NAME=VALUE' });
  return z.NEVER;
});

const authority = z.string().transform((text, context) => {
  const pem = certificatesIn(text).length > 0 ? text : Buffer.from(text, 'base64').toString();
  if (certificatesIn(pem).length > 0) return pem;
  context.addIssue({ code: 'custom', message: 'expected a certificate as PEM, or that in base64' });
  return z.NEVER;
});

export const configSchema = z.object({
  /** Of a job of the platform: the cluster key, for the blob store. */
  FLYNN_KEY: secret().optional(),
  ...identityConfig,
  /** For the controller: what this service may do there, and nothing else. The cluster key stands in where there is none yet. */
  FLYNN_CONTROLLER_TOKEN: secret().optional(),
  /**
   * Of a runner outside of the cluster, in the place of the key: where the controller is for everybody, and the authority that has
   * signed for it if that is not one this machine trusts anyway, as PEM or that in base64. "flynn runner add" tells both.
   */
  FLYNN_CONTROLLER_URL: z.url({ protocol: /^https?$/ }).optional(),
  FLYNN_CONTROLLER_CA: authority.optional(),
  FLYNN_DISCOVERY_URL: z.url().default('http://127.0.0.1:1111'),
  /** The image slugs run on; default: the one that the controller takes for it. */
  FLYNN_SLUG_RUNNER_IMAGE: z.string().min(1).default('slug-runner'),
  /** What the controller knows this runner by; by default its job, else its machine. */
  FLYNN_RUNNER_ID: z.string().min(1).optional(),
  /** Of a runner that is not the platform's: kept, so that nobody else can act as it. It waits to be adopted. */
  FLYNN_RUNNER_TOKEN: secret().min(16).optional(),
  /** `zone=a,gpu=yes`: what operations may ask of a runner. */
  FLYNN_RUNNER_LABELS: labels.optional(),
  /** Takes only operations that name it. */
  FLYNN_RUNNER_BY_ID_ONLY: booleanFlag.optional(),
  /** A file with logins for registries, as "docker login" writes it. They stay here, and count more than what the cluster keeps. */
  FLYNN_REGISTRY_CONFIG: z.string().min(1).optional(),
  /**
   * `registry.example.com,10.0.0.5:5000`: with those of that file, all registries that it fetches from. One outside of the cluster
   * fetches from no others anyway: whoever deploys is not to look around in the network that it is in.
   */
  FLYNN_RUNNER_REGISTRIES: list.optional(),
  /** What "flynn runner env" sets counts more, but for registries that it has a login of its own for. */
  ...registrySettings,
  FLYNN_JOB_ID: z.string().min(1).optional(),
  HOSTNAME: z.string().min(1).optional(),
  /** Operations at a time. */
  FLYNN_RUNNER_SLOTS: integer.pipe(z.int().min(1).max(64)).default(2),
  /** Where it serves its figures. */
  FLYNN_METRICS_PORT: integer.default(metricsPort),
});
type Config = z.output<typeof configSchema>;

export type Inside = Readonly<{ is: 'inside'; config: Config & { FLYNN_KEY: string } }>;
export type Outside = Readonly<{ is: 'outside'; url: string; ca: string | undefined; id: string; token: string }>;

/** A job of the platform, or on a machine of its own? Throws `invalid` for what is of both, or not enough for either. */
export function placeOf(config: Config): Inside | Outside {
  const { FLYNN_KEY: key, FLYNN_CONTROLLER_URL: url, FLYNN_RUNNER_ID: id, FLYNN_RUNNER_TOKEN: token } = config;
  if (url === undefined) return { is: 'inside', config: { ...config, FLYNN_KEY: keyOf(config) } };
  if (key !== undefined) {
    throw new FlynnError(
      'invalid',
      'FLYNN_KEY is for runners that are jobs of the platform, FLYNN_CONTROLLER_URL for those outside of the cluster: unset one',
    );
  }
  if (id === undefined || token === undefined) {
    throw new FlynnError(
      'invalid',
      'with FLYNN_CONTROLLER_URL go FLYNN_RUNNER_ID and FLYNN_RUNNER_TOKEN: "flynn runner add ID" writes all three',
    );
  }
  return { is: 'outside', url, ca: config.FLYNN_CONTROLLER_CA, id, token };
}

export function ownRegistriesOf(config: Config): OwnRegistries {
  const { FLYNN_RUNNER_REGISTRIES: listed, FLYNN_PLAIN_REGISTRIES: plain } = config;
  return { plain, only: listed ?? (placeOf(config).is === 'outside' ? [] : undefined) };
}

function keyOf({ FLYNN_KEY: key }: Config): string {
  if (key !== undefined) return key;
  throw new FlynnError(
    'invalid',
    'FLYNN_KEY is not set, as it is in jobs of the platform; outside of the cluster a runner needs FLYNN_CONTROLLER_URL: "flynn runner add ID" tells how it is started',
  );
}

export function runnerIdOf(config: Config): string {
  return config.FLYNN_RUNNER_ID ?? config.FLYNN_JOB_ID ?? config.HOSTNAME ?? newId();
}

export function identityOf(config: Config): Identity {
  const id = runnerIdOf(config);
  return {
    id,
    token: config.FLYNN_RUNNER_TOKEN ?? platformRunnerToken(keyOf(config), id),
    labels: config.FLYNN_RUNNER_LABELS ?? {},
    isByIdOnly: config.FLYNN_RUNNER_BY_ID_ONLY ?? false,
    version,
    slots: config.FLYNN_RUNNER_SLOTS,
  };
}
