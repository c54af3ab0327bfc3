/** Where and how a cluster is set up: variables of the environment, then what an earlier `up` settled, then defaults. */
import { resolve } from 'node:path';
import { clientUrlOf } from '@flynn/host-agent/cluster/etcd-resident';
import { hostIdSchema } from '@flynn/host-agent/cluster/join';
import { siteSchema } from '@flynn/host-agent/network/lease';
import { authoritiesSchema } from '@flynn/host-agent/trust/authorities';
import { integer, loadConfig } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import type { Credentials } from '@flynn/kit/tls';
import { z } from 'zod';
import { commands } from './origin.ts';
import { httpsPortOf } from './domain/urls.ts';

const port = integer.pipe(z.int().min(1).max(65_535));
const folder = z.string().startsWith('/', 'expected an absolute path');
/** Of which systemd, a shell and whoever reads agent.env understand the same. */
const plainFolder = folder.regex(
  /^[^\s"'`\\$%#]*$/,
  'expected a path without spaces, quotes, backslashes, $, % and #: systemd and shells take them for something else',
);
const supervisor = z.enum(['systemd', 'own']);
const networkBackend = z.enum(['auto', 'direct', 'vxlan']);
const ipv4Subnet = z
  .string()
  .regex(/^\d{1,3}(\.\d{1,3}){3}\/\d{1,2}$/, 'expected a subnet like 100.100.0.0/24')
  .refine((text) => Number(text.split('/')[1]) >= 16 && Number(text.split('/')[1]) <= 26, 'expected a /16 to /26')
  .refine(
    (text) => gatewayOf(text) === firstAfter(text),
    'expected the first address of the subnet, like 100.100.0.0/24',
  );

/** Of a cluster that was not given any. */
export const defaultName = 'flynn';

export const domainSchema = z
  .string()
  .regex(
    /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)+$/,
    'expected a domain like apps.example.com',
  );

export const optionsSchema = z.object({
  /** Names everything of the cluster on this machine. */
  FLYNN_CLUSTER: z
    .string()
    .regex(/^[a-z][a-z0-9]{0,19}$/, 'expected up to 20 lower-case letters and digits')
    .optional(),
  /** Apps answer at NAME.DOMAIN; it and *.DOMAIN have to lead to this machine. *.localhost does by itself. */
  FLYNN_DOMAIN: domainSchema.optional(),
  FLYNN_HTTP_PORT: port.optional(),
  /** Where requests over TLS come in; as far above the HTTP port as 443 is above 80, unless given. */
  FLYNN_HTTPS_PORT: port.optional(),
  FLYNN_GIT_PORT: port.optional(),
  /** The cluster's keys, the host agent's memory and logs. */
  FLYNN_STATE_DIR: plainFolder.default('/var/lib/flynn').transform((path) => resolve(path)),
  FLYNN_DOCKER_SOCKET: plainFolder.default('/var/run/docker.sock'),
  /** What this machine's containers have addresses from. */
  FLYNN_SUBNET: ipv4Subnet.optional(),
  /** What all hosts' subnets are of. */
  FLYNN_RANGE: ipv4Subnet.optional(),
  /** What other hosts know this one by; its name unless given. */
  FLYNN_HOST_ID: hostIdSchema.optional(),
  FLYNN_BRIDGE: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,14}$/, 'expected a network interface name of at most 15 characters')
    .optional(),
  /** Where other hosts reach this one; found out unless given. */
  FLYNN_ADDRESS: z.ipv4().optional(),
  /** How hosts send what is for each other's containers: `auto` is straight to those on one network, and by a tunnel to others. */
  FLYNN_NETWORK_BACKEND: networkBackend.optional(),
  /** Name servers for everything but the cluster's own names, with commas; those of the machine unless given. Kept. */
  FLYNN_DNS_UPSTREAMS: z
    .string()
    .refine(
      (text) => text.split(',').every((part) => /^\d{1,3}(\.\d{1,3}){3}(:\d{1,5})?$/.test(part.trim())),
      'expected IPv4 addresses, with or without :port, with commas between them',
    )
    .optional(),
  /** `open`: containers on this host reach what a cloud tells the machine of itself. Kept. */
  FLYNN_CLOUD_METADATA: z.enum(['closed', 'open']).optional(),
  /** Schedulers of your own, by the absolute paths of their modules, with commas: the same ones on every host. Kept. */
  FLYNN_SCHEDULERS: z
    .string()
    .refine(
      (text) => text.split(',').every((path) => plainFolder.safeParse(path.trim()).success),
      'expected absolute paths without spaces, quotes, backslashes, $, % and #, with commas between them',
    )
    .optional(),
  /** The flynn command's configuration; ~/.config/flynn unless given. */
  FLYNN_CONFIG_DIR: folder.optional(),
  /** Of the backup that `up --from-backup` restores, if it is encrypted and there is no --passphrase-file. */
  FLYNN_BACKUP_PASSPHRASE: z.string().optional(),
  /** What restarts the host agent; systemd where it runs, unless given. Kept. */
  FLYNN_SUPERVISOR: supervisor.optional(),
});
export type Options = z.output<typeof optionsSchema>;

/** What this host is to do its own way, and where the cluster's state on its disk has it from one `up` to the next. */
const keptOptions = [
  ['FLYNN_DNS_UPSTREAMS', 'dnsUpstreams'],
  ['FLYNN_CLOUD_METADATA', 'cloudMetadata'],
  ['FLYNN_SCHEDULERS', 'schedulers'],
  ['FLYNN_SUPERVISOR', 'supervisor'],
] as const;

/** Of those that are kept an empty one takes away what an earlier `up` was given. */
export function readOptions(env: Record<string, string | undefined>): Options {
  const emptied = keptOptions.flatMap(([name]) => (env[name] === '' ? [[name, ''] as const] : []));
  return { ...loadConfig(optionsSchema, env), ...Object.fromEntries(emptied) };
}

/** What `up` settled for good, in the state directory. */
export const clusterSchema = z.object({
  name: z.string(),
  domain: z.string(),
  /** Where it was before, newest first, and answers too; `isMoving` until all routes are at `domain` as well. */
  domains: z.object({ former: z.array(z.string()), isMoving: z.boolean() }).optional(),
  httpPort: z.int(),
  /** As it was given: see httpsPortOf. */
  httpsPort: z.int().optional(),
  gitPort: z.int(),
  subnet: z.string(),
  range: z.string(),
  bridge: z.string(),
  /** As it was given: `auto` unless it was. */
  networkBackend: networkBackend.optional(),
  /** Where the others reach it; of a host behind NAT its gateway, through the tunnel. */
  address: z.string(),
  /** Of a host behind NAT: the name of the private network that it is in, and its address there if that was given. */
  site: siteSchema.optional(),
  localAddress: z.ipv4().optional(),
  hostId: z.string(),
  /** Where etcd was when this host came into the cluster. */
  etcdEndpoints: z.array(z.string()),
  /** Hosts that were there before this one, which have images. */
  peers: z.array(z.string()),
  /** Whether `up` here brings the platform up to date: it does on the host that made the cluster, or took that over. */
  hasPlatform: z.boolean(),
  /** Signs the certificates of hosts and services; and what counts beside it while it is made anew. */
  ...authoritiesSchema.shape,
  /** Who has it may join. */
  joinSecret: z.string(),
  /** What the cluster's secrets are sealed under in the store, which never has it. */
  sealingKey: z.string(),
  /** Between the cluster's own services. */
  key: z.string(),
  /** The root key, for people. Where another host made the cluster: as it was when this one last asked. */
  controllerKey: z.string(),
  /** Until an `up` of a cluster that is made has come to its end, where people are told the root key. */
  isRootKeyUntold: z.literal(true).optional(),
  /** Which tokens the platform's parts have; `former`: those the controller takes as well, until all have new ones. */
  tokens: z.object({ round: z.int(), former: z.int().optional() }).optional(),
  /** While the root key is made anew: see rotation/rotation.ts. `id`: of its entry in the audit trail. */
  rootKeyChange: z.object({ id: z.string(), since: z.string(), former: z.string(), isClosing: z.boolean() }).optional(),
  /** While the sealing key is made anew: see rotation/sealing-key-round.ts. `id`: of its entry in the audit trail. */
  sealingKeyChange: z.object({ id: z.string(), since: z.string(), next: z.string().optional() }).optional(),
  /** While the authority is made anew: see rotation/authority-round.ts. `next`: the new one, with its key, until it issues. */
  authorityChange: z
    .object({
      id: z.string(),
      since: z.string(),
      phase: z.enum(['opening', 'issuing', 'closing']),
      next: authoritiesSchema.shape.authority.optional(),
    })
    .optional(),
  createdAt: z.string(),
  /** Whether the sample app is there: once it was, somebody may have deleted it. */
  sample: z.enum(['live', 'gone']).optional(),
  /** What an `up` was given for this host, as it was given. */
  dnsUpstreams: z.string().optional(),
  cloudMetadata: z.enum(['closed', 'open']).optional(),
  schedulers: z.string().optional(),
  supervisor: supervisor.optional(),
});
export type Cluster = z.output<typeof clusterSchema>;

export type Machine = {
  hostname: string;
  address: string;
  now: Date;
  newSecret: () => string;
  /** For a cluster that is made now. */
  authority: Credentials;
};

/** What every host of the cluster is told when it joins. */
export const sharedSchema = clusterSchema.omit({
  subnet: true,
  address: true,
  site: true,
  localAddress: true,
  hostId: true,
  etcdEndpoints: true,
  peers: true,
  hasPlatform: true,
  domains: true,
  isRootKeyUntold: true,
  tokens: true,
  rootKeyChange: true,
  sealingKeyChange: true,
  authorityChange: true,
  sample: true,
  dnsUpstreams: true,
  cloudMetadata: true,
  schedulers: true,
  supervisor: true,
});

/** `conflict` when an option contradicts what the cluster is that a host joins: it holds for all of its hosts. */
export function refuseContradictions(options: Options, cluster: Cluster): void {
  const given = [
    ['FLYNN_CLUSTER', cluster.name],
    ['FLYNN_DOMAIN', cluster.domain],
    ['FLYNN_HTTP_PORT', cluster.httpPort],
    ['FLYNN_HTTPS_PORT', httpsPortOf(cluster)],
    ['FLYNN_GIT_PORT', cluster.gitPort],
    ['FLYNN_SUBNET', cluster.subnet],
    ['FLYNN_RANGE', cluster.range],
    ['FLYNN_BRIDGE', cluster.bridge],
    ['FLYNN_NETWORK_BACKEND', cluster.networkBackend ?? 'auto'],
  ] as const;
  refuseOther(
    options,
    given,
    (value) => `the cluster gives its hosts ${value}: unset it, and run the same command again`,
  );
}

type Settled = readonly (readonly [keyof Options, string | number])[];

function refuseOther(options: Options, settled: Settled, but: (value: string | number) => string): void {
  for (const [name, value] of settled) {
    if (options[name] === undefined || options[name] === value) continue;
    throw new FlynnError('conflict', `${name} is ${options[name]}, but ${but(value)}`);
  }
}

/** `conflict` when an option contradicts what the cluster already is. */
export function settle(options: Options, stored: Cluster | undefined, machine: Machine): Cluster {
  if (stored !== undefined) {
    const fixed = [
      ['FLYNN_CLUSTER', stored.name],
      ['FLYNN_SUBNET', stored.subnet],
      ['FLYNN_RANGE', stored.range],
      ['FLYNN_HOST_ID', stored.hostId],
      ['FLYNN_BRIDGE', stored.bridge],
    ] as const;
    const remedy = `unset it, or take the cluster down first with ${commands.down}`;
    refuseOther(options, fixed, (value) => `the cluster on this machine was made with ${value}: ${remedy}`);
    const moving = `unset it, or move the cluster with ${commands.domain} ${options.FLYNN_DOMAIN}`;
    refuseOther(options, [['FLYNN_DOMAIN', stored.domain]], (value) => `the cluster's domain is ${value}: ${moving}`);
    const backend = backendOf(options);
    // A cluster goes over to another one host after the other.
    if (!stored.hasPlatform) refuseContradictions(options, { ...stored, ...backend });
    const changed = {
      ...stored,
      httpPort: options.FLYNN_HTTP_PORT ?? stored.httpPort,
      gitPort: options.FLYNN_GIT_PORT ?? stored.gitPort,
      ...(options.FLYNN_HTTPS_PORT === undefined ? {} : { httpsPort: options.FLYNN_HTTPS_PORT }),
      ...backend,
      ...movedTo(options.FLYNN_ADDRESS, stored),
    };
    return withKept(changed, options);
  }
  const address = options.FLYNN_ADDRESS ?? machine.address;
  const range = options.FLYNN_RANGE ?? '100.100.0.0/16';
  const made: Cluster = {
    name: options.FLYNN_CLUSTER ?? defaultName,
    domain: options.FLYNN_DOMAIN ?? 'flynn.localhost',
    httpPort: options.FLYNN_HTTP_PORT ?? 80,
    ...(options.FLYNN_HTTPS_PORT === undefined ? {} : { httpsPort: options.FLYNN_HTTPS_PORT }),
    gitPort: options.FLYNN_GIT_PORT ?? 2222,
    subnet: subnetIn(range, options.FLYNN_SUBNET),
    bridge: options.FLYNN_BRIDGE ?? 'flynn0',
    ...backendOf(options),
    range,
    address,
    hostId: hostIdOf(options, machine),
    etcdEndpoints: [clientUrlOf(address)],
    peers: [],
    hasPlatform: true,
    authority: machine.authority,
    joinSecret: machine.newSecret(),
    sealingKey: machine.newSecret(),
    key: machine.newSecret(),
    controllerKey: machine.newSecret(),
    isRootKeyUntold: true,
    createdAt: machine.now.toISOString(),
  };
  return withKept(made, options);
}

function backendOf({ FLYNN_NETWORK_BACKEND: given }: Options): Pick<Cluster, 'networkBackend'> {
  return given === undefined ? {} : { networkBackend: given };
}

/** The one that was given, or the first. `invalid` for one outside: hosts have ways to, and let in, what is of the range. */
function subnetIn(range: string, given: string | undefined): string {
  const [first = '', rangeBits = '16'] = range.split('/');
  if (given === undefined) return `${first}/${Math.max(24, Number(rangeBits))}`;
  const [base = '', bits = '24'] = given.split('/');
  const shift = 32 - Number(rangeBits);
  if (Number(bits) < Number(rangeBits) || numberOf(base) >>> shift !== numberOf(first) >>> shift) {
    throw new FlynnError(
      'invalid',
      `FLYNN_SUBNET, ${given}, is not of FLYNN_RANGE, ${range}, as those of all hosts are: give both, or the range alone`,
    );
  }
  return given;
}

/** With what this `up` was given for this host; what it was not given stays as it was. */
export function withKept(cluster: Cluster, options: Options): Cluster {
  const kept: Cluster = { ...cluster };
  for (const [name, field] of keptOptions) {
    // As it came from the environment: an empty one takes it away.
    const given: string | undefined = options[name];
    if (given === undefined) continue;
    if (given === '') delete kept[field];
    else Object.assign(kept, { [field]: given });
  }
  return kept;
}

/**
 * For what brings a host to another version. It leaves alone what restarts the agent: agents and programs of a version before hand
 * that on as they find it, whether or not anybody gave it. And how hosts send to each other: that would be this host's alone.
 * And what apps reach of a cloud: a version of before refuses what it does not know.
 */
export function forUpdate(options: Options): Options {
  const { FLYNN_SUPERVISOR: _1, FLYNN_NETWORK_BACKEND: _2, FLYNN_CLOUD_METADATA: _3, ...rest } = options;
  return rest;
}

/** What an earlier `up` was given and this one was not, for people: nobody else would remember it. */
export function keptText(cluster: Cluster, options: Options): string[] {
  return keptOptions.flatMap(([name, field]) => {
    const value = cluster[field];
    if (value === undefined || options[name] !== undefined) return [];
    return [`${name} is ${value}, as an earlier up was told; ${name}= ${commands.up} takes it away`];
  });
}

/**
 * The host that made the cluster, and so found none there, has a member of etcd at its own address. Another may have one as well by
 * now, the only one even: where that goes it is asked for, too.
 */
function movedTo(
  given: string | undefined,
  stored: Cluster,
): Pick<Cluster, 'address' | 'localAddress' | 'etcdEndpoints'> {
  if (stored.site !== undefined) {
    const { address, etcdEndpoints } = stored;
    return { address, etcdEndpoints, ...(given === undefined ? {} : { localAddress: given }) };
  }
  const address = given ?? stored.address;
  if (stored.peers.length === 0) return { address, etcdEndpoints: [clientUrlOf(address)] };
  if (address === stored.address) return { address, etcdEndpoints: stored.etcdEndpoints };
  const others = stored.etcdEndpoints.filter((endpoint) => endpoint !== clientUrlOf(stored.address));
  return { address, etcdEndpoints: [...new Set([...others, clientUrlOf(address)])] };
}

export function hostIdOf(options: Pick<Options, 'FLYNN_HOST_ID'>, machine: Pick<Machine, 'hostname'>): string {
  const name = machine.hostname.toLowerCase().replaceAll(/[^a-z0-9]/g, '');
  return options.FLYNN_HOST_ID ?? (name.slice(0, 20) || 'host');
}

/** The first address of the subnet: the host's own on the bridge. */
export function gatewayOf(subnet: string): string {
  const [base = '', bits = '24'] = subnet.split('/');
  const mask = 0xffffffff << (32 - Number(bits));
  const number = ((numberOf(base) & mask) + 1) >>> 0;
  return [24, 16, 8, 0].map((shift) => (number >>> shift) & 255).join('.');
}

function firstAfter(subnet: string): string {
  const [base = ''] = subnet.split('/');
  return base.replace(/\d+$/, (last) => String(Number(last) + 1));
}

function numberOf(address: string): number {
  return address.split('.').reduce((sum, part) => ((sum << 8) | Number(part)) >>> 0, 0);
}
