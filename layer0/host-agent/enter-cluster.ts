/** From waiting for the store to being one host of its cluster. */
import { roleGate } from '@flynn/kit/http-gate';
import type { Gate } from '@flynn/kit/http-gate';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import { createRegistry } from '@flynn/discovery/store-registry';
import type { LastingRegistry } from '@flynn/discovery/store-registry';
import type { HostRecord } from '@flynn/scheduler/cell';
import type { EtcdClient } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { etcdJob } from './cluster/etcd-resident.ts';
import { startHandedOver } from './cluster/handed-over.ts';
import type { HandedOver } from './cluster/handed-over.ts';
import { memberTrustOf } from './cluster/member-trust.ts';
import { followEndpointsFile } from './cluster/membership.ts';
import { startPlatformImages } from './cluster/platform-images.ts';
import { startCluster } from './cluster/start.ts';
import type { Peers } from './cluster/start.ts';
import type { Config } from './config.ts';
import { serveDiscovery } from './discovery/servers.ts';
import type { DoctorDeps } from './doctor/start.ts';
import { serveEarly } from './early-server.ts';
import type { EarlyServer } from './early-server.ts';
import { untilAlone } from './fencing/rivals.ts';
import type { Ground } from './ground.ts';
import { ownAddresses } from './hosts/own-addresses.ts';
import { untilThere } from './hosts/record.ts';
import { startKeyspaces } from './keyspaces/start.ts';
import { followCluster } from './network/start.ts';
import { agentRules } from './trust/agent-rules.ts';
import type { HostTrust } from './trust/host-trust.ts';
import { ensureLocalKey } from './trust/local-key.ts';

export type EntryDeps = Readonly<{
  config: Config;
  version: string;
  connectStore: () => Promise<{ store: EtcdClient; tls?: EtcdTls }>;
  peers: Peers;
  trust: HostTrust | undefined;
  record: HostRecord;
  log: Logger;
}>;

export type Entered = Readonly<{
  store: EtcdClient;
  tls: EtcdTls | undefined;
  registry: LastingRegistry;
  gate: Gate;
  /** The API that has served until now. */
  early: EarlyServer;
  handedOver: HandedOver;
  /** Whether the host has its subnet from the cluster. */
  hasLease: () => boolean;
  /** What doctors look at. */
  examined: Omit<DoctorDeps, 'work' | 'schedulerFault' | 'rememberedHosts'>;
}>;

/** Bridge and store may come minutes later, and another machine may be this host until people say otherwise: it waits for all. */
export async function enterCluster(deps: EntryDeps, ground: Ground, tasks: TaskGroup): Promise<Entered> {
  const { config, version, peers, trust, record, log } = deps;
  const { host, access, engine, machine, engineDir, containers, hang, bridge, network, runs, rivals, standing, known } =
    ground;
  const { FLYNN_STATE_DIR: stateDir } = config;
  const { signal } = tasks;
  const waiting = { signal, log };
  const { store, tls } = await deps.connectStore();
  const localKey = await ensureLocalKey(stateDir);
  const gate = roleGate(
    config.FLYNN_KEY,
    agentRules(() => peers.records(), localKey),
  );
  const examined = {
    config,
    version,
    engineVersion: machine.version,
    engineDir,
    store,
    tls,
    containers,
    hang,
    network,
    rivals,
    identity: trust?.identity,
    log,
  };
  const early = await serveEarly({ ...examined, engine, bridge, record, rivals, port: record.apiPort, gate, signal });
  host.storeEndpoints = () => store.endpoints;
  await bridge.whenThere(signal);
  tasks.run('where etcd is', (s) =>
    forever('where etcd is', (limit) => followEndpointsFile(store, { stateDir, log, signal: limit }), {
      signal: s,
      log,
    }),
  );
  const askStore = async () => {
    // What people are told meanwhile.
    await rivals.before(await ownAddresses());
    await store.get('/flynn/', { signal });
  };
  await untilThere('the store', askStore, waiting);
  const registry = await untilThere('the store', () => createRegistry({ store, log, signal }), waiting);
  known.registry = registry;
  // Two machines that are one host, one made of a copy of the other's disk, would do all of the following, each over the other.
  await untilAlone({ store, runs, rivals, hostId: host.hostId, signal, log });
  const hasLostData = () => ground.residents.hasLostData(etcdJob);
  await startCluster({ config, engine, store, tls, peers, trust, hasLostData, log }, tasks);
  const member = tls === undefined ? undefined : memberTrustOf({ config, store, tls, containers, log });
  const handed = { stateDir, store, trust, peers: () => peers.others(), access, containers, member, log };
  const handedOver = await startHandedOver(handed, tasks);
  known.platformImages = await startPlatformImages({ store, engine, log }, tasks);
  const { isLeased } = await followCluster(network, { store, registry, standing, log }, tasks);
  await serveDiscovery(registry, { gateway: host.gateway, containers: () => containers.all(), log, signal });
  startKeyspaces({ gateway: host.gateway, containers, store, tls, log }, tasks);
  return {
    store,
    tls,
    registry,
    gate,
    early,
    handedOver,
    // Without certificates there is but one host, and nobody who would lease it anything.
    hasLease: () => tls === undefined || isLeased(),
    examined,
  };
}
