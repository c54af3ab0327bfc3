/** The controller's configuration, the same for web and worker. */
import type { KindName } from '@flynn/appliances/kinds';
import type { KnownCertificate } from '@flynn/host-agent/doctor/certificates';
import { integer, secret } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { metricsPort } from '@flynn/kit/metrics-server';
import { identityConfig } from '@flynn/kit/identity';
import { eitherCommand } from '@flynn/kit/operator-commands';
import type { EtcdOptions } from '@flynn/store/etcd';
import { z } from 'zod';
import type { ControllerSettings } from './deps.ts';
import packageFile from './package.json' with { type: 'json' };
import type { PortRange } from './routes/address.ts';

/** Two of a kind, with a comma between, while it is made anew: the newer first, or what is in use. */
const secrets = () => secret().transform((text) => text.split(',').filter((key) => key !== ''));

export const configSchema = z.object({
  /** The cluster key: between services, towards host agents and the log aggregator. */
  FLYNN_KEY: secret(),
  ...identityConfig,
  /** The root key; while it is made anew the former one too, after a comma. */
  FLYNN_CONTROLLER_KEY: secrets(),
  /** Of the tokens of the platform's parts that are good, with commas. */
  FLYNN_TOKEN_ROUNDS: z
    .string()
    .regex(/^\d{1,9}(,\d{1,9})?$/, 'one round, or two with a comma between')
    .default('0')
    .transform((text) => text.split(',').map(Number)),
  /** Comma-separated. */
  FLYNN_ETCD_ENDPOINTS: z.string().default('http://127.0.0.1:2379'),
  /** For https endpoints: the cluster's authority, and a certificate and key of it, as PEM. */
  FLYNN_ETCD_CA: z.string().optional(),
  FLYNN_ETCD_CERT: z.string().optional(),
  FLYNN_ETCD_KEY: secret().optional(),
  /**
   * What the cluster's secrets are sealed under; without it the controller of a cluster that seals does not start. While it is
   * made anew the one that is to be too, after a comma.
   */
  FLYNN_SEALING_KEY: secrets().optional(),
  FLYNN_DISCOVERY_URL: z.url().default('http://127.0.0.1:1111'),
  FLYNN_DOMAIN: z.string().default('flynn.localhost'),
  /** Comma-separated: where the cluster was before, and answers too. */
  FLYNN_FORMER_DOMAINS: z
    .string()
    .default('')
    .transform((text) => text.split(',').filter((domain) => domain !== '')),
  FLYNN_CLUSTER: z.string().default('default'),
  /** Where `git push` goes, up to the app's name: ssh://git@flynn.localhost:2222 */
  FLYNN_GIT_URL: z.string().default('ssh://git@flynn.localhost:2222'),
  /** The git receiver's public key, as known_hosts has it after the host's name. */
  FLYNN_GIT_HOST_KEY: z.string().optional(),
  /** The router's public HTTP port. */
  FLYNN_HTTP_PORT: integer.default(80),
  /** Ports for tcp routes that name none. */
  FLYNN_TCP_PORTS: z
    .string()
    .regex(/^\d{1,5}-\d{1,5}$/, 'ports are written as FIRST-LAST, like 3000-3500')
    .default('3000-3500'),
  /** And the one for TLS. */
  FLYNN_HTTPS_PORT: integer.default(443),
  /**
   * What becomes of requests that reach the API over http:// though a certificate is shown for its name: they are sent to
   * https://, or refused if they have a key in them. `allowed` is for those who end TLS in front of the router themselves and
   * cannot say so with FLYNN_TRUSTED_PROXIES.
   */
  FLYNN_PLAIN_HTTP: z.enum(['refused', 'allowed']).default('refused'),
  /**
   * Whether the cluster keeps logins of registries for its runners, as "flynn registry login" asks it to. `refused`: it takes none,
   * and runners of people's own have them (FLYNN_REGISTRY_CONFIG).
   */
  FLYNN_REGISTRY_LOGINS_KEPT: z.enum(['allowed', 'refused']).default('allowed'),
  /** The image slugs run on. */
  FLYNN_SLUG_RUNNER_IMAGE: z.string().default('flynn/slug-runner'),
  /** The image of datastores of each kind. */
  FLYNN_POSTGRES_IMAGE: z.string().default('flynn/postgres'),
  FLYNN_REDIS_IMAGE: z.string().default('flynn/redis'),
  FLYNN_MYSQL_IMAGE: z.string().default('flynn/mysql'),
  /** A provider of identities to log in with: its issuer, as it writes itself, and the id this cluster has there. */
  FLYNN_OIDC_ISSUER: z.url().optional(),
  FLYNN_OIDC_CLIENT_ID: z.string().min(1).optional(),
  /** Comma-separated: only verified addresses of these domains; without, whoever the provider knows. */
  FLYNN_OIDC_DOMAINS: z.string().default(''),
  /** Teams named like what it lists are one's own. Empty: admins alone fill teams. */
  FLYNN_OIDC_GROUPS_CLAIM: z.string().default('groups'),
  /** What is asked for there: some providers tell groups only to who asks for `groups`. */
  FLYNN_OIDC_SCOPES: z
    .string()
    .regex(/^(?:\S+ )*openid(?: \S+)*$/, 'scopes are separated by single spaces, and openid is one of them')
    .default('openid email profile'),
  /**
   * Whether who has a flynn command of a version before may log in, which does not say for which cluster the login is: whoever runs
   * another cluster at which they log in comes in here as them.
   */
  FLYNN_OIDC_UNBOUND_LOGINS: z.enum(['refused', 'allowed']).default('refused'),
  /** Of one token, and of all together that nobody knows; bursts of four times as many are fine. */
  FLYNN_REQUESTS_PER_SECOND: integer.pipe(z.int().min(1)).default(500),
  PORT: integer.default(3000),
  /** Where a worker, which has no API, serves its figures. */
  FLYNN_METRICS_PORT: integer.default(metricsPort),
});
export type ControllerConfig = z.output<typeof configSchema>;

export function etcdOptionsOf(config: ControllerConfig): Pick<EtcdOptions, 'endpoints' | 'tls'> {
  const { FLYNN_ETCD_CA: ca, FLYNN_ETCD_CERT: certificate, FLYNN_ETCD_KEY: privateKey } = config;
  const endpoints = config.FLYNN_ETCD_ENDPOINTS.split(',');
  if (ca === undefined || certificate === undefined || privateKey === undefined) return { endpoints };
  return { endpoints, tls: { ca, certificate, privateKey } };
}

/** What this process stands on. */
export function certificatesOf({ FLYNN_ETCD_CERT: certificate }: ControllerConfig): KnownCertificate[] {
  if (certificate === undefined) return [];
  return [
    {
      name: "the controller's certificate for etcd",
      certificate,
      why: 'without a valid one the controller reads and writes nothing any more',
      remedy: `${eitherCommand('up')} on the host that keeps the platform makes another, and has the controller started anew with it`,
      warnDays: 30,
      criticalDays: 7,
    },
  ];
}

function oidcOf(config: ControllerConfig): Pick<ControllerSettings, 'oidc'> {
  const { FLYNN_OIDC_ISSUER: issuer, FLYNN_OIDC_CLIENT_ID: clientId, FLYNN_OIDC_GROUPS_CLAIM: groupsClaim } = config;
  if (issuer === undefined && clientId === undefined) return {};
  if (issuer === undefined || clientId === undefined) {
    throw new FlynnError('invalid', 'FLYNN_OIDC_ISSUER and FLYNN_OIDC_CLIENT_ID go together: set both, or neither');
  }
  const domains = config.FLYNN_OIDC_DOMAINS.split(',').map((domain) => domain.trim().toLowerCase());
  const scopes = config.FLYNN_OIDC_SCOPES;
  const takesUnbound = config.FLYNN_OIDC_UNBOUND_LOGINS === 'allowed';
  const named = domains.filter((domain) => domain !== '');
  return { oidc: { issuer, clientId, domains: named, groupsClaim, scopes, takesUnbound } };
}

function tcpPortsOf({ FLYNN_TCP_PORTS: text }: ControllerConfig): PortRange {
  const [first = 0, last = 0] = text.split('-').map(Number);
  if (first >= 1 && first <= last && last <= 65_535) return { first, last };
  throw new FlynnError('invalid', `FLYNN_TCP_PORTS=${text}: ports are from 1 to 65535, the first before the last`);
}

export function readSettings(config: ControllerConfig): ControllerSettings {
  return {
    name: config.FLYNN_CLUSTER,
    domain: config.FLYNN_DOMAIN,
    formerDomains: config.FLYNN_FORMER_DOMAINS,
    gitUrl: config.FLYNN_GIT_URL,
    httpPort: config.FLYNN_HTTP_PORT,
    tcpPorts: tcpPortsOf(config),
    httpsPort: config.FLYNN_HTTPS_PORT,
    slugRunnerImage: config.FLYNN_SLUG_RUNNER_IMAGE,
    applianceImages: {
      postgres: config.FLYNN_POSTGRES_IMAGE,
      redis: config.FLYNN_REDIS_IMAGE,
      mysql: config.FLYNN_MYSQL_IMAGE,
    } satisfies Record<KindName, string>,
    version: packageFile.version,
    keepsRegistryLogins: config.FLYNN_REGISTRY_LOGINS_KEPT === 'allowed',
    ...(config.FLYNN_GIT_HOST_KEY === undefined ? {} : { gitHostKey: config.FLYNN_GIT_HOST_KEY }),
    ...oidcOf(config),
  };
}
