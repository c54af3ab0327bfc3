/** Which networks is this machine in, or has it ways to? Those of the cluster's other hosts are none of them. */
import { readFile } from 'node:fs/promises';
import { ourRoutes } from '@flynn/host-agent/network/removal';
import { readTextFile } from '@flynn/kit/files';
import { withDeadline } from '@flynn/kit/retry';
import { z } from 'zod';
import { engineAt } from './engine.ts';

/** `isOurs`: of the container engine, made by flynn: for a cluster, or by its tests. */
export type Network = Readonly<{ device: string; subnet: string; isOurs?: boolean }>;

const readMs = 20_000;

/** Of a VPN that no route tells of: what comes from there by any other device, as from containers, it drops. */
export const tailscale: Network = { device: 'tailscale0', subnet: '100.64.0.0/10' };

/** `socket`: of an engine that runs. */
export async function readMachineNetworks(socket: string | undefined): Promise<Network[]> {
  const signal = withDeadline(readMs);
  const [routes, devices, left, labelled] = await Promise.all([
    // The kernel's table, which is there on every Linux; elsewhere preflight says so.
    readTextFile('/proc/net/route'),
    readFile('/proc/net/dev', 'utf8'),
    // An `ip` that cannot tell is an obstacle of its own (tools.ts).
    ourRoutes('0.0.0.0/0', { signal }).catch(() => []),
    socket === undefined ? [] : labelledBridges(socket, signal),
  ]);
  return machineNetworks({ routes: routes ?? '', devices, left, labelled });
}

type Answers = Readonly<{
  /** The texts of /proc/net/route and /proc/net/dev. */
  routes: string;
  devices: string;
  /** Ways to other hosts, of an agent that is gone: the next one takes them away. */
  left: readonly Network[];
  /** Bridges that the container engine made for flynn. */
  labelled: readonly string[];
}>;

export function machineNetworks({ routes, devices, left, labelled }: Answers): Network[] {
  const isLeft = ({ device, subnet }: Network): boolean =>
    left.some((one) => one.device === device && one.subnet === subnet);
  const known = parseRoutes(routes)
    .filter((network) => !isLeft(network))
    .map(({ device, subnet }): Network => ({ device, subnet, isOurs: labelled.includes(device) }));
  return new RegExp(`^\\s*${tailscale.device}:`, 'm').test(devices) ? [...known, tailscale] : known;
}

/** The text of /proc/net/route, without default routes. */
function parseRoutes(text: string): Network[] {
  return text
    .split('\n')
    .slice(1)
    .flatMap((line) => {
      const [device = '', destination = '', , , , , , mask = ''] = line.trim().split(/\s+/);
      if (mask === '' || mask === '00000000') return [];
      return [{ device, subnet: `${dotted(destination)}/${bitsOf(mask)}` }];
    });
}

function dotted(littleEndianHex: string): string {
  return (littleEndianHex.match(/../g) ?? [])
    .toReversed()
    .map((byte) => Number.parseInt(byte, 16))
    .join('.');
}

function bitsOf(hex: string): number {
  return Number.parseInt(hex, 16).toString(2).replaceAll('0', '').length;
}

const networksSchema = z.array(
  z.object({
    Id: z.string(),
    Labels: z.record(z.string(), z.string()).nullish(),
    Options: z.record(z.string(), z.string()).nullish(),
  }),
);

async function labelledBridges(socket: string, signal: AbortSignal): Promise<string[]> {
  return bridgesOfFlynn(await engineAt(socket).listNetworks({ abortSignal: signal }));
}

/** `networks`: as the engine lists them. */
export function bridgesOfFlynn(networks: unknown): string[] {
  return networksSchema
    .parse(networks)
    .filter(({ Labels }) => Object.keys(Labels ?? {}).some((name) => name.startsWith('flynn.')))
    .map(({ Id, Options }) => Options?.['com.docker.network.bridge.name'] ?? `br-${Id.slice(0, 12)}`);
}
