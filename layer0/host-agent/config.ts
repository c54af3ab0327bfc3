/** The host agent's configuration. */
import { isIPv4 } from 'node:net';
import { booleanFlag, integer, secret } from '@flynn/kit/config';
import { FlynnError } from '@flynn/kit/errors';
import { z } from 'zod';
import { siteAttribute, siteSchema } from './network/lease.ts';
import { defaultRange, defaultVxlanId } from './network/state.ts';

const list = z.string().transform((text) =>
  text
    .split(',')
    .map((item) => item.trim())
    .filter((item) => item !== ''),
);

export const configSchema = z.object({
  /** Names this cluster's containers, images and volumes on the host. */
  FLYNN_CLUSTER: z
    .string()
    .regex(/^[a-z][a-z0-9]{0,20}$/, 'lower-case letters and digits, at most 21')
    .default('default'),
  FLYNN_HOST_ID: z.string().regex(/^[a-z0-9]{1,32}$/, 'lower-case letters and digits, at most 32'),
  FLYNN_STATE_DIR: z.string().startsWith('/').default('/var/lib/flynn'),
  /** The folder of the version that this host was installed as, such as /opt/flynn/1.2.3; from its sources it has none. */
  FLYNN_INSTALLATION: z.string().startsWith('/').optional(),
  /** The cluster key: whoever has it may do everything. */
  FLYNN_KEY: secret(),
  /** Where other hosts reach this one; behind NAT its gateway, through the tunnel. */
  FLYNN_ADDRESS: z.ipv4(),
  /** The private network behind NAT that this host is in. */
  FLYNN_SITE: siteSchema.optional(),
  /** Its address in there; found out unless given. */
  FLYNN_LOCAL_ADDRESS: z.ipv4().optional(),
  FLYNN_SUBNET: z.cidrv4().default('100.100.0.0/24'),
  FLYNN_BRIDGE: z
    .string()
    .regex(/^[a-z][a-z0-9-]{0,14}$/)
    .default('flynn0'),
  /** What all hosts' subnets are of. */
  FLYNN_RANGE: z.cidrv4().default(defaultRange),
  /**
   * How other hosts' containers are reached, the same on all hosts: `auto` routes to hosts on the same network and tunnels to
   * others. Encryption, which comes before it, is the cluster's to say (`network/encryption.ts`).
   */
  FLYNN_NETWORK_BACKEND: z.enum(['auto', 'direct', 'vxlan']).default('auto'),
  /** `open`: containers on this host reach what a cloud tells the machine of itself at 169.254.169.254. */
  FLYNN_CLOUD_METADATA: z.enum(['closed', 'open']).default('closed'),
  /** The tunnel's number and UDP port, the same on all hosts. */
  FLYNN_VXLAN_ID: integer.pipe(z.int().min(1).max(9_999_999)).default(defaultVxlanId),
  FLYNN_VXLAN_PORT: integer.pipe(z.int().min(1).max(65_535)).default(1115),
  /** WireGuard's UDP port, the same on all hosts. */
  FLYNN_WIREGUARD_PORT: integer.pipe(z.int().min(1).max(65_535)).default(1117),
  FLYNN_ETCD_ENDPOINTS: list.default(['http://127.0.0.1:2379']),
  /** For https endpoints: the cluster's authority, and this host's certificate and key. */
  FLYNN_ETCD_CA_FILE: z.string().optional(),
  FLYNN_ETCD_CERT_FILE: z.string().optional(),
  FLYNN_ETCD_KEY_FILE: z.string().optional(),
  /** Addresses of other hosts, which have images, for as long as there is no store to tell of them. */
  FLYNN_PEERS: list.default([]),
  FLYNN_DOCKER_SOCKET: z.string().default('/var/run/docker.sock'),
  /** Instead of the host's own resolvers: address or address:port, separated by commas. */
  FLYNN_DNS_UPSTREAMS: list.optional(),
  /** Whether this host also schedules. */
  FLYNN_SCHEDULER: booleanFlag.default(true),
  /** Schedulers of your own, by the absolute paths of their modules: the same ones on every host. */
  FLYNN_SCHEDULERS: list.default([]),
  /** `key=value,…`: what constraints of workloads can ask for. */
  FLYNN_ATTRIBUTES: z.string().default(''),
});
export type Config = z.output<typeof configSchema>;

/** The first address of the subnet: the host's own on the bridge. */
export function gatewayOf(subnet: string): string {
  const [address = ''] = subnet.split('/');
  const parts = address.split('.').map(Number);
  if (!isIPv4(address))
    throw new FlynnError('invalid', `FLYNN_SUBNET ${subnet} is not an IPv4 subnet such as 100.100.0.0/24`);
  return [...parts.slice(0, 3), (parts[3] ?? 0) + 1].join('.');
}

/**
 * What a host behind NAT says of itself: nobody comes in there from outside, so it has no router unless people tag it
 * `router=yes`.
 */
export function siteAttributes({ FLYNN_SITE: site }: Pick<Config, 'FLYNN_SITE'>): Record<string, string> {
  return site === undefined ? {} : { [siteAttribute]: site, router: 'no' };
}

export function parseAttributes(text: string): Record<string, string> {
  const pairs = text.split(',').filter((pair) => pair.trim() !== '');
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=');
      if (at < 1) throw new FlynnError('invalid', `FLYNN_ATTRIBUTES: "${pair}" is not of the form key=value`);
      return [pair.slice(0, at).trim(), pair.slice(at + 1).trim()];
    }),
  );
}

export function parseUpstream(text: string): { address: string; port: number } {
  const [address = '', port = '53'] = text.split(':');
  if (!isIPv4(address) || !/^\d+$/.test(port)) {
    throw new FlynnError('invalid', `FLYNN_DNS_UPSTREAMS: "${text}" is not an IPv4 address, with or without :port`);
  }
  return { address, port: Number(port) };
}
