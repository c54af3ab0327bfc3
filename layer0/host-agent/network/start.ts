/** The host's network put together: what it is told by the configuration, the container table, the store and discovery. */
import { isIPv4 } from 'node:net';
import { join } from 'node:path';
import type { Registry } from '@flynn/discovery/registry';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { TaskGroup } from '@flynn/kit/tasks';
import { openMirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';
import { type Config, gatewayOf } from '../config.ts';
import type { ContainerTable } from '../containers/table.ts';
import { label } from '../engine/labels.ts';
import { lanAddress } from '../hosts/own-addresses.ts';
import { Shell, quoted } from '../shell.ts';
import { readInterfaces } from './actual.ts';
import { Crowd } from './crowd.ts';
import { type EncryptionWord, encryptionKey, encryptionSchema } from './encryption.ts';
import type { HostBridge } from './host-bridge.ts';
import { HostNetwork } from './host-network.ts';
import { type Lease, leasePrefix, leaseSchema } from './lease.ts';
import { networkFile } from './memory.ts';
import { Places } from './places.ts';
import { keepOwnLease } from './own-lease.ts';
import type { Standing } from '../fencing/standing.ts';
import { type Endpoint, localJobsOf } from './policy.ts';
import { type Run, runProgram } from './program.ts';
import { type NetworkSettings, containerMtu } from './state.ts';
import { ensureTunnelKey, tunnelKeyFile } from './tunnel-key.ts';
import { wireguardDevice } from './wireguard.ts';

/** Answers what they are at the moment: routers at home give another address now and then. */
async function settingsOf(config: Config): Promise<() => NetworkSettings> {
  const { FLYNN_SITE: site, FLYNN_LOCAL_ADDRESS: given } = config;
  const fixed: NetworkSettings = {
    cluster: config.FLYNN_CLUSTER,
    hostId: config.FLYNN_HOST_ID,
    address: config.FLYNN_ADDRESS,
    subnet: config.FLYNN_SUBNET,
    gateway: gatewayOf(config.FLYNN_SUBNET),
    bridge: config.FLYNN_BRIDGE,
    range: config.FLYNN_RANGE,
    backend: config.FLYNN_NETWORK_BACKEND,
    vxlanId: config.FLYNN_VXLAN_ID,
    vxlanPort: config.FLYNN_VXLAN_PORT,
    isMetadataOpen: config.FLYNN_CLOUD_METADATA === 'open',
    wireguard: {
      device: wireguardDevice(config.FLYNN_VXLAN_ID, config.FLYNN_SUBNET),
      port: config.FLYNN_WIREGUARD_PORT,
      key: await ensureTunnelKey(config.FLYNN_STATE_DIR),
      keyFile: tunnelKeyFile(config.FLYNN_STATE_DIR),
    },
  };
  return () =>
    site === undefined ? fixed : { ...fixed, site, localAddress: given ?? lanAddress(config.FLYNN_BRIDGE) };
}

/** Undefined when the machine does not tell: then the engine's default is as good as any. */
export async function readContainerMtu(config: Config, log: Logger, signal: AbortSignal): Promise<number | undefined> {
  const { FLYNN_ADDRESS: address, FLYNN_SITE: site, FLYNN_NETWORK_BACKEND: backend } = config;
  const settings = {
    address,
    backend,
    ...(site === undefined ? {} : { localAddress: config.FLYNN_LOCAL_ADDRESS ?? lanAddress(config.FLYNN_BRIDGE) }),
  };
  try {
    return containerMtu(settings, await readInterfaces(runProgram, signal));
  } catch (error) {
    log.warn(`containers get the engine's usual MTU: ${messageOf(error)}`);
    return undefined;
  }
}

/** The network runs in the group, at first with what was known of the cluster when it was last heard of. */
export async function startNetwork(
  {
    config,
    containers,
    bridge,
    log,
  }: { config: Config; containers: ContainerTable; bridge: Pick<HostBridge, 'whenThere'>; log: Logger },
  tasks: TaskGroup,
): Promise<HostNetwork> {
  const jobs = () => localJobsOf(containers.all());
  const crowd = new Crowd({
    containers: () => jobs().map(({ address, reach }) => ({ address, isTrusted: (reach?.access ?? []).length > 0 })),
    run: runnerOf(new Shell()),
    onChange: () => network.changed(),
    log,
  });
  const network = new HostNetwork({
    settings: await settingsOf(config),
    file: join(config.FLYNN_STATE_DIR, networkFile),
    jobs,
    crowd,
    run: runnerOf(new Shell()),
    runBeside: runProgram,
    log,
  });
  tellOf(containers, network);
  tasks.run('host network', async (signal) => {
    await untilCurrent(containers, signal);
    await bridge.whenThere(signal);
    await network.run(signal);
  });
  tasks.run('connections', (signal) => crowd.run(signal));
  return network;
}

export function tellOf(
  containers: Pick<ContainerTable, 'connections' | 'onChange'>,
  network: Pick<HostNetwork, 'changed' | 'engineIsBack'>,
): void {
  let connections = 0;
  containers.onChange(() => {
    if (containers.connections === connections) return network.changed();
    ({ connections } = containers);
    return network.engineIsBack();
  });
}

/** Scripts, such as the one that looks every few seconds, are the shell's; what follows a script's name is its arguments. */
export function runnerOf(shell: Shell): Run {
  return (command, signal) => {
    const [option, script, , ...given] = command.args;
    if (command.program !== 'sh' || option !== '-c' || script === undefined) return runProgram(command, signal);
    const withArguments = given.length === 0 ? script : `set -- ${given.map(quoted).join(' ')}\n${script}`;
    return shell.run(withArguments, { signal });
  };
}

/** Rules made of a table that is still empty would cut off every job there is. */
async function untilCurrent(containers: ContainerTable, signal: AbortSignal): Promise<void> {
  const current = Promise.withResolvers<void>();
  const look = () => void (containers.isCurrent && current.resolve());
  const off = containers.onChange(look);
  signal.addEventListener('abort', () => current.resolve(), { once: true });
  look();
  await current.promise;
  off();
}

/**
 * Resolves when the network follows the cluster, which it does until the signal aborts. `isLeased`: whether the host has its subnet
 * from the cluster, as it was told last, or cannot be read.
 */
export async function followCluster(
  network: Pick<HostNetwork, 'settings' | 'unheard' | 'changed' | 'follow'>,
  {
    store,
    registry,
    standing,
    log,
  }: { store: Store; registry: Registry; standing: Pick<Standing, 'mayTell'>; log: Logger },
  tasks: TaskGroup,
): Promise<{ isLeased: () => boolean }> {
  const { signal } = tasks;
  const decode = (json: unknown): Lease => leaseSchema.parse(json);
  const leases = await openMirror<Lease>({ store, prefix: leasePrefix, decode, log, signal });
  leases.onChange(() => network.changed());
  const places = new Places();
  const off = registry.onChange((_service, events) => {
    if (places.follow(events)) network.changed();
  });
  signal.addEventListener('abort', off, { once: true });
  const { hostId, subnet, wireguard } = network.settings;
  const told = () => {
    const { site, localAddress } = network.settings;
    return {
      tunnelKey: wireguard.key,
      ...(site === undefined ? {} : { site, localAddress, unheard: network.unheard }),
    };
  };
  tasks.run("the host's lease", (s) => keepOwnLease({ hostId, told, leases, store, standing, log }, s));
  const encryption = await openMirror<EncryptionWord>({
    store,
    prefix: encryptionKey,
    decode: (json) => encryptionSchema.parse(json),
    instead: () => 'unreadable',
    log,
    signal,
  });
  encryption.onChange(() => network.changed());
  network.follow(() => ({
    word: encryption.snapshot.entries.get('')?.value ?? 'off',
    leases: [...leases.snapshot.entries.values()].map(({ value }) => value),
    unread: leases.unreadable,
    endpoints: endpointsOf(registry),
  }));
  const isLeased = () => leases.unreadable.has(hostId) || leases.snapshot.entries.get(hostId)?.value.subnet === subnet;
  return { isLeased };
}

function endpointsOf(registry: Registry): Endpoint[] {
  return registry.all().flatMap(({ service, address, attributes }) => {
    // What is announced over HTTP may be any text.
    const [, host = '', port = ''] = /^([\d.]+):(\d{1,5})$/.exec(address) ?? [];
    if (!isIPv4(host) || Number(port) < 1 || Number(port) > 65_535) return [];
    const group = attributes[label.group];
    return [{ service, ...(group === undefined ? {} : { group }), address: host, port: Number(port) }];
  });
}
