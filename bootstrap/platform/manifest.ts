/** What the platform consists of: its apps, as data. */
import type { z } from 'zod';
import { type Service, serviceToken } from '@flynn/controller/access/service-token';
import type { PlatformLimits } from '@flynn/controller/backup/platform-limits';
import { kindNames } from '@flynn/controller/datastores/kinds';
import type { processSchema } from '@flynn/controller/processes/process';
import { siteAttribute } from '@flynn/host-agent/network/lease';
import { hostAuthoritiesOf } from '@flynn/host-agent/trust/authorities';
import { metricsToken } from '@flynn/kit/metrics-token';
import type { Credentials } from '@flynn/kit/tls';
import { domainsOf, formerDomainsOf } from '../domain/domain.ts';
import { doorConstraints } from './doors.ts';
import type { ImageName } from '../images/recipes.ts';
import { rootKeysOf, roundsOf } from '../rotation/rotation.ts';
import { sealingKeysOf } from '../rotation/sealing-key-round.ts';
import { type Cluster } from '../settings.ts';
import { controllerNameOf, dashboardNameOf, gitUrlOf, httpsPortOf } from '../domain/urls.ts';

type ProcessInput = z.input<typeof processSchema>;

export type SystemRoute =
  | { type: 'http'; domain: string; service: string; http?: { https: { redirect: boolean } } }
  | { type: 'tcp'; port: number; service: string };

export type SystemApp = Readonly<{
  name: string;
  image: string;
  env: Readonly<Record<string, string>>;
  processes: Readonly<Record<string, ProcessInput>>;
  /** How many of each at first; afterwards they are scaled like any app's. */
  counts: Readonly<Record<string, number>>;
  routes: readonly SystemRoute[];
  /** What people have that is called so is left alone, and the platform does without. */
  isDispensable?: boolean;
  /** What of it is the manifest's own, where there is something of people in it. */
  given?: Given;
}>;

/** What a manifest gave an app: by their names its variables, and what jobs of its processes may take and where they may be. */
export type Given = Readonly<{ variables: readonly string[]; limits: PlatformLimits | undefined }>;

export type ManifestInput = Readonly<{
  cluster: Cluster;
  images: ReadonlyMap<ImageName, string>;
  /** The git receiver's, in OpenSSH's format. */
  sshHostKey: string;
  /** Its public half, which the controller tells to whoever adds the cluster. */
  sshHostPublicKey: string;
  /** How builds reach the registries that this machine reaches. */
  builderEnv: Readonly<Record<string, string>>;
  hostMemoryBytes: number;
  /** For etcd. */
  controllerCertificate: Credentials;
}>;

export const controllerApp = 'controller';
export const controllerService = 'controller';
export const gitReceiverApp = 'git-receiver';
const gitService = 'git-receiver';
export const dashboardApp = 'dashboard';

const mebibyte = 1024 ** 2;
/** On a machine with less, everything of the platform gets half, so that builds and apps fit beside it. */
const roomyHostBytes = 3.5 * 1000 ** 3;
/** The router's own status; it shares the host's ports. */
export const routerStatusPort = 1114;

/** Where people and other parts reach it without a detour through somebody's home. */
const reachable: NonNullable<ProcessInput['constraints']> = [{ attribute: siteAttribute, operator: 'missing' }];

/** Requests under way when a router is replaced may go on this long. */
const routerDrainMs = 5_000;

/** What all of them are told. Where discovery and etcd are depends on their host, which tells them. */
function commonEnv(cluster: Cluster): Record<string, string> {
  return { FLYNN_KEY: cluster.key, FLYNN_MUTUAL_TLS: 'true' };
}

/**
 * In the environment of its processes, which go with the version, and not in the app's, which outlives it: programs of a
 * version before do not do so, nor know the variable.
 */
function alwaysIdentified(app: SystemApp): SystemApp {
  const processes = Object.entries(app.processes).map(([type, process]) => {
    return [type, { ...process, env: { ...process.env, FLYNN_MUTUAL_ALWAYS: 'true' } }];
  });
  return { ...app, processes: Object.fromEntries(processes) };
}

/** What a part of the platform shows the controller: it opens what that part needs, and nothing else. */
function controllerToken(cluster: Cluster, service: Service): Record<string, string> {
  return { FLYNN_CONTROLLER_TOKEN: serviceToken(cluster.controllerKey, service, roundsOf(cluster).round) };
}

type Sizes = (memoryMiB: number, cpuMillis?: number) => Pick<ProcessInput, 'memoryBytes' | 'cpuMillis'>;

/** Idle services take a quarter of what they may; the rest is for many requests at once. */
function sizesOf(hostMemoryBytes: number): Sizes {
  const share = hostMemoryBytes < roomyHostBytes ? 0.5 : 1;
  return (memoryMiB, cpuMillis = 50) => ({ memoryBytes: memoryMiB * share * mebibyte, cpuMillis });
}

/** Healthy is who answers /ping: the process is up and serving. */
function served(service: string, port: number): Pick<ProcessInput, 'ports'> {
  const check = { type: 'http', path: '/ping', status: 200, intervalMs: 2_000, threshold: 1 } as const;
  return { ports: [{ port, service: { name: service, check } }] };
}

export function manifestOf(input: ManifestInput): SystemApp[] {
  const { cluster } = input;
  const common = commonEnv(cluster);
  const size = sizesOf(input.hostMemoryBytes);
  const app = (name: ImageName, more: Pick<SystemApp, 'processes' | 'counts'> & Partial<SystemApp>): SystemApp => ({
    name,
    image: imageOf(input, name),
    env: common,
    routes: [],
    ...more,
  });
  const apps = [
    controllerOf(input),
    app('blobstore', {
      processes: {
        web: {
          ...size(128),
          ...served('blobstore', 8080),
          // What a host's store has the others have too.
          volumes: [{ name: 'blobs', path: '/data', isReplaceable: true }],
          // One copy more than a put waits for.
          omni: true,
          maxHosts: 3,
        },
      },
      counts: { web: 1 },
    }),
    app('log-aggregator', {
      env: { ...common, ...controllerToken(cluster, 'log-aggregator') },
      processes: {
        web: {
          ...size(192),
          ...served('log-aggregator', 8080),
          constraints: reachable,
          // Hosts tell again what their containers still have: better some of the logs than none until a host is back.
          volumes: [{ name: 'logs', path: '/data', isReplaceable: true }],
        },
      },
      counts: { web: 1 },
    }),
    app('runner', {
      env: {
        ...common,
        ...controllerToken(cluster, 'runner'),
        FLYNN_SLUG_RUNNER_IMAGE: imageOf(input, 'slug-runner'),
      },
      processes: { runner: size(128) },
      counts: { runner: 1 },
    }),
    app('slug-builder', {
      env: { ...common, ...input.builderEnv },
      // A tenth of an app's share of busy processors: whoever pushes waits, not those who are served.
      processes: { build: size(1024, 100) },
      counts: { build: 0 },
    }),
    app(gitReceiverApp, {
      env: { ...common, ...controllerToken(cluster, 'git-receiver'), FLYNN_SSH_HOST_KEY: input.sshHostKey },
      processes: {
        web: {
          // Each push under way, its build included, keeps a git and a hook of its own: some 30 MiB.
          ...size(input.hostMemoryBytes < roomyHostBytes ? 256 : 384),
          ports: [
            { port: 2022, service: { name: gitService, check: { type: 'tcp', intervalMs: 1_000, threshold: 1 } } },
          ],
          constraints: reachable,
          // Without them a push sends its whole history: better than none until a lost host is back.
          volumes: [{ name: 'repositories', path: '/data', isReplaceable: true }],
        },
      },
      counts: { web: 1 },
      routes: [{ type: 'tcp', port: cluster.gitPort, service: gitService }],
    }),
    app(dashboardApp, {
      isDispensable: true,
      // It has no key to anything: what it asks the controller is asked with the token of who logged in.
      env: { FLYNN_MUTUAL_TLS: 'true', FLYNN_METRICS_TOKEN: metricsToken(cluster.key) },
      processes: { web: { ...size(128), ...served(dashboardApp, 8080), constraints: reachable } },
      counts: { web: 1 },
      // Tokens are typed into it: what is asked in clear is sent on to where it is not.
      routes: domainsOf(cluster).map((domain) => ({
        type: 'http' as const,
        domain: dashboardNameOf({ domain }),
        service: dashboardApp,
        http: { https: { redirect: true } },
      })),
    }),
    app('router', {
      env: { ...common, ...controllerToken(cluster, 'router'), ...routerPorts(cluster), FLYNN_STATE_DIR: '/data' },
      processes: {
        web: {
          // Two workers and what they share; a small host has one.
          ...size(input.hostMemoryBytes < roomyHostBytes ? 256 : 384),
          ...served('router', routerStatusPort),
          // The last known routes and certificates, for a start while the rest of the platform is away.
          volumes: [{ name: 'router', path: '/data', isShared: true }],
          omni: true,
          constraints: doorConstraints,
          hostNetwork: true,
          drainMs: routerDrainMs,
        },
      },
      counts: { web: 1 },
    }),
  ];
  return apps.map(alwaysIdentified);
}

function controllerOf(input: ManifestInput): SystemApp {
  const { cluster } = input;
  const rounds = roundsOf(cluster);
  const size = sizesOf(input.hostMemoryBytes);
  return {
    name: controllerApp,
    image: imageOf(input, 'controller'),
    env: {
      ...commonEnv(cluster),
      FLYNN_CONTROLLER_KEY: rootKeysOf(cluster).join(','),
      FLYNN_TOKEN_ROUNDS: [rounds.round, rounds.former].filter((round) => round !== undefined).join(','),
      FLYNN_SEALING_KEY: sealingKeysOf(cluster).join(','),
      FLYNN_ETCD_CA: hostAuthoritiesOf(cluster),
      FLYNN_ETCD_CERT: input.controllerCertificate.certificate,
      FLYNN_ETCD_KEY: input.controllerCertificate.privateKey,
      FLYNN_DOMAIN: cluster.domain,
      FLYNN_FORMER_DOMAINS: formerDomainsOf(cluster).join(','),
      FLYNN_CLUSTER: cluster.name,
      FLYNN_GIT_URL: gitUrlOf(cluster),
      FLYNN_GIT_HOST_KEY: input.sshHostPublicKey.trim().split(/\s+/, 2).join(' '),
      ...routerPorts(cluster),
      FLYNN_SLUG_RUNNER_IMAGE: imageOf(input, 'slug-runner'),
      ...Object.fromEntries(kindNames.map((kind) => [`FLYNN_${kind.toUpperCase()}_IMAGE`, imageOf(input, kind)])),
    },
    processes: {
      web: { command: ['web'], ...size(256), ...served(controllerService, 3000), constraints: reachable },
      worker: { command: ['worker'], ...size(256), constraints: reachable },
    },
    counts: { web: 1, worker: 1 },
    routes: domainsOf(cluster).map((domain) => ({
      type: 'http' as const,
      domain: controllerNameOf({ domain }),
      service: controllerService,
    })),
  };
}

function routerPorts(cluster: Cluster): Record<string, string> {
  return { FLYNN_HTTP_PORT: String(cluster.httpPort), FLYNN_HTTPS_PORT: String(httpsPortOf(cluster)) };
}

function imageOf(input: ManifestInput, name: ImageName): string {
  const tag = input.images.get(name);
  if (tag === undefined) throw new Error(`no image was made for ${name}`);
  return tag;
}
