/**
 * What a host has before there is a store: its containers, their network and names, and the resident jobs, one of which may be
 * the store.
 */
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { Registry } from '@flynn/discovery/registry';
import type { AgentAccess } from './agent-client.ts';
import { memberGuard } from './cluster/member-guard.ts';
import { gatewayOf } from './config.ts';
import type { Config } from './config.ts';
import type { SharedNode } from './containers/shared-node.ts';
import type { HostSettings } from './containers/spec.ts';
import { ContainerTable } from './containers/table.ts';
import { serveNames } from './discovery/servers.ts';
import type { Engine, EngineInfo, FetchBlob } from './engine/engine.ts';
import { HangWatch } from './engine/hang.ts';
import { otherMachineFile } from './fencing/other-machine.ts';
import { OwnRuns } from './fencing/own-runs.ts';
import { Rivals } from './fencing/rivals.ts';
import { Standing } from './fencing/standing.ts';
import { Watchdog } from './fencing/watchdog.ts';
import { absenceMs, keepPresence } from './hosts/presence.ts';
import { untilThere } from './hosts/record.ts';
import { blobFetcher, blobService } from './images/blobs.ts';
import { listedName } from './images/names.ts';
import { ImageUses } from './images/uses.ts';
import { Residents } from './jobs/resident.ts';
import { HostBridge } from './network/host-bridge.ts';
import type { HostNetwork } from './network/host-network.ts';
import { readContainerMtu, startNetwork } from './network/start.ts';
import { type HostTrust, runTrust } from './trust/host-trust.ts';

export type ConnectEngine = (
  fetchBlob: FetchBlob,
  told: { onPulled: (name: string) => void; isOfPlatform: (name: string) => boolean },
) => Engine;

export type GroundDeps = Readonly<{
  config: Config;
  connectEngine: ConnectEngine;
  /** Without, it speaks as agents did before there were roles. */
  trust: HostTrust | undefined;
  node: SharedNode | undefined;
  log: Logger;
}>;

/** What the ground hears of once there is a store. */
export type Known = { registry?: Registry; platformImages: () => readonly string[] };

export type Ground = Readonly<{
  host: HostSettings;
  access: AgentAccess;
  engine: Engine;
  machine: EngineInfo;
  /** Where the engine keeps its files. */
  engineDir: string;
  fetchBlob: FetchBlob;
  uses: ImageUses;
  containers: ContainerTable;
  hang: HangWatch;
  bridge: HostBridge;
  network: HostNetwork;
  residents: Residents;
  watchdog: Watchdog;
  runs: OwnRuns;
  rivals: Rivals;
  standing: Standing;
  known: Known;
}>;

/**
 * Waits for the engine, which may come minutes later, but not for its networks: one that hangs never tells of them, and
 * people are to be told that. What needs the bridge begins with it. What it started runs in the group.
 */
export async function prepareGround(deps: GroundDeps, tasks: TaskGroup): Promise<Ground> {
  const { config, trust, log } = deps;
  const { FLYNN_STATE_DIR: stateDir } = config;
  const { signal } = tasks;
  const waiting = { signal, log };
  const host: HostSettings = {
    ...settingsOf(config),
    storeEndpoints: () => config.FLYNN_ETCD_ENDPOINTS,
    identities: trust?.jobs,
    node: deps.node,
  };
  const access = { key: config.FLYNN_KEY, identity: trust?.identity };
  const known: Known = { platformImages: () => [] };
  const uses = new ImageUses({ path: join(stateDir, 'image-uses.json'), log });
  await uses.load();
  const fetchBlob = blobFetcher(() => known.registry?.instances(blobService) ?? [], access);
  const engine = deps.connectEngine(fetchBlob, {
    onPulled: (name) => void uses.notePulled(listedName(name)),
    isOfPlatform: (name) => known.platformImages().includes(name),
  });
  const containers = new ContainerTable({ engine, log });
  const mtu = await readContainerMtu(config, log, signal);
  const wanted = {
    name: host.networkName,
    bridge: config.FLYNN_BRIDGE,
    subnet: config.FLYNN_SUBNET,
    gateway: host.gateway,
    ...(mtu === undefined ? {} : { mtu }),
  };

  // Before anything that may take its time: jobs may be running that have to end if it does.
  const watchdog = new Watchdog({ dir: join(stateDir, 'watchdog'), log });
  watchdog.resume();
  const machine = await untilThere('the container engine', () => engine.info({ signal }), waiting);
  tasks.run('builds left', (s) =>
    untilThere('what builds have left to go', () => engine.removeBuildsLeft({ signal: s }), { signal: s, log }),
  );
  tasks.run('containers', (s) => containers.run(s));
  const hang = new HangWatch({ engine, version: machine.version, log });
  tasks.run('whether the engine hangs', (s) => hang.run(s));
  const bridge = new HostBridge({ engine, bridge: wanted, containers, log });
  tasks.run('network', (s) => bridge.run(s));
  if (trust !== undefined) runTrust(trust, containers, tasks);
  const network = await startNetwork({ config, containers, bridge, log }, tasks);
  const absentMs = await absenceMs(stateDir, systemClock.now());
  tasks.run('presence', (s) =>
    forever('noting that there is an agent', (limit) => keepPresence(stateDir, limit), { signal: s, log }),
  );
  const runs = await OwnRuns.open(stateDir, log);
  const rivals = new Rivals(log, otherMachineFile(stateDir, log));
  const { mayStart, mayRun } = memberGuard({ config, runs, rivals, absenceMs: absentMs, log });
  const residents = new Residents({
    dir: join(stateDir, 'resident'),
    engine,
    containers,
    host,
    mayStart,
    mayRun,
    log,
  });
  tasks.run('resident jobs', async (s) => {
    await bridge.whenThere(s);
    await residents.run(s);
  });
  tasks.run('names', async (s) => {
    await bridge.whenThere(s);
    const { FLYNN_DNS_UPSTREAMS: upstreams } = config;
    await serveNames(() => known.registry, { gateway: host.gateway, upstreams, log, signal: s });
  });
  return {
    host,
    access,
    engine,
    machine,
    engineDir: machine.rootDir ?? stateDir,
    fetchBlob,
    uses,
    containers,
    hang,
    bridge,
    network,
    residents,
    watchdog,
    runs,
    rivals,
    standing: new Standing(),
    known,
  };
}

function settingsOf(config: Config): Omit<HostSettings, 'storeEndpoints'> {
  return {
    cluster: config.FLYNN_CLUSTER,
    hostId: config.FLYNN_HOST_ID,
    externalAddress: config.FLYNN_ADDRESS,
    gateway: gatewayOf(config.FLYNN_SUBNET),
    networkName: config.FLYNN_BRIDGE,
  };
}
