/** The host agent put together: what starts when, and what it waits for. */
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import { roleGate } from '@flynn/kit/http-gate';
import { startServer } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import type { Metrics } from '@flynn/kit/metrics';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { Registry } from '@flynn/discovery/registry';
import { Routers, routerService } from '@flynn/discovery/routers';
import { createRegistry } from '@flynn/discovery/store-registry';
import type { HostRecord } from '@flynn/scheduler/cell';
import { schedulerMetrics } from '@flynn/scheduler/scheduler-metrics';
import type { EtcdClient } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { prepareAbsence } from './hosts/absence.ts';
import { blobFetcher, blobService } from './images/blobs.ts';
import { buildHandlers } from './builds/server.ts';
import { certificateFault } from './cluster/certificate-age.ts';
import { startHandedOver } from './cluster/handed-over.ts';
import { memberGuard } from './cluster/member-guard.ts';
import { memberTrustOf } from './cluster/member-trust.ts';
import { followEndpointsFile } from './cluster/membership.ts';
import { startPlatformImages } from './cluster/platform-images.ts';
import { startCluster } from './cluster/start.ts';
import type { Peers } from './cluster/start.ts';
import { gatewayOf, parseAttributes, siteAttributes } from './config.ts';
import type { Config } from './config.ts';
import { findingMetrics } from './doctor/metrics.ts';
import { startDoctor } from './doctor/start.ts';
import { serveEarly } from './early-server.ts';
import { etcdJob } from './cluster/etcd-resident.ts';
import { ContainerTable } from './containers/table.ts';
import type { Container, Engine, FetchBlob } from './engine/engine.ts';
import { startHost } from './host.ts';
import type { Host } from './host.ts';
import { capacityOf, keepAnnounced, untilThere } from './hosts/record.ts';
import { listedName } from './images/names.ts';
import { ImageUses } from './images/uses.ts';
import { startKeyspaces } from './keyspaces/start.ts';
import { isSingleton } from './engine/labels.ts';
import { withdrawLeft } from './discovery/left-instances.ts';
import { ensureLocalKey } from './trust/local-key.ts';
import { LogCursors } from './logs/cursors.ts';
import { LogPump } from './logs/pump.ts';
import { linesOf } from './logs/read.ts';
import { AggregatorSink } from './logs/sink.ts';
import { otherMachineFile } from './fencing/other-machine.ts';
import { ownAddresses } from './hosts/own-addresses.ts';
import { OwnRuns } from './fencing/own-runs.ts';
import { operatorHandlers } from './operator-server.ts';
import { networkHandlers } from './network/server.ts';
import { followCluster, readContainerMtu, startNetwork } from './network/start.ts';
import { startOwnScheduler } from './own-scheduler.ts';
import { absenceMs, keepPresence } from './hosts/presence.ts';
import { Residents } from './jobs/resident.ts';
import { Rivals, untilAlone } from './fencing/rivals.ts';
import { backupFileHandlers } from './disk/backup-files.ts';
import { installationHandlers } from './update/installation.ts';
import packageFile from './package.json' with { type: 'json' };
import { agentHandlers } from './server.ts';
import { Sessions } from './sessions/session.ts';
import type { SharedNode } from './containers/shared-node.ts';
import type { HostSettings } from './containers/spec.ts';
import { Standing } from './fencing/standing.ts';
import { agentRules, isEverybodyKnown, keyAlone, withoutIdentity } from './trust/agent-rules.ts';
import { tellJobs } from './trust/closing.ts';
import { type HostTrust, runTrust } from './trust/host-trust.ts';
import { certificateHandlers } from './trust/server.ts';
import { Unattended, keepAttended } from './sessions/unattended.ts';
import { startUpkeep } from './upkeep.ts';
import { serveDiscovery, serveNames } from './discovery/servers.ts';
import { VolumeSizes } from './volumes/sizes.ts';
import { volumeHandlers } from './volumes/volumes.ts';
import { Watchdog } from './fencing/watchdog.ts';
import { workloadHandlers } from './workloads/server.ts';

/** Of the program, which a bundle may have stamped. */
const { version } = packageFile;
export const apiPort = 1113;
const replayedLines = 1_000;
const networkResyncMs = 30_000;

export type AgentDeps = {
  config: Config;
  log: Logger;
  tasks: TaskGroup;
  connectEngine: (
    fetchBlob: FetchBlob,
    told: { onPulled: (name: string) => void; isOfPlatform: (name: string) => boolean },
  ) => Engine;
  connectStore: () => Promise<{ store: EtcdClient; tls?: EtcdTls }>;
  metrics: Metrics;
  peers: Peers;
  /** Without, it speaks as agents did before there were roles. */
  trust: HostTrust | undefined;
  node: SharedNode | undefined;
  /** Whether it was stopped to be started again at once. */
  isToReturn: () => boolean;
};

/**
 * Resolves when the host takes jobs. Before there is a store the resident jobs run, one of which may be the store; jobs have DNS,
 * and root on this machine is told how the host is. The engine and the store may come minutes later: it waits for them.
 */
export async function startAgent(deps: AgentDeps): Promise<void> {
  const { config, log, tasks, connectEngine, connectStore, peers, trust, metrics, node } = deps;
  const { signal } = tasks;
  const waiting = { signal, log };
  const host: HostSettings = {
    ...settingsOf(config),
    storeEndpoints: () => config.FLYNN_ETCD_ENDPOINTS,
    identities: trust?.jobs,
    node,
  };
  const access = { key: config.FLYNN_KEY, identity: trust?.identity };
  let registry: Registry | undefined;
  const uses = new ImageUses({ path: join(config.FLYNN_STATE_DIR, 'image-uses.json'), log });
  await uses.load();
  const fetchBlob = blobFetcher(() => registry?.instances(blobService) ?? [], access);
  let platformImages: () => readonly string[] = () => [];
  const engine = connectEngine(fetchBlob, {
    onPulled: (name) => void uses.notePulled(listedName(name)),
    isOfPlatform: (name) => platformImages().includes(name),
  });
  const containers = new ContainerTable({ engine, log });
  const mtu = await readContainerMtu(config, log, signal);
  const network = {
    name: host.networkName,
    bridge: config.FLYNN_BRIDGE,
    subnet: config.FLYNN_SUBNET,
    gateway: host.gateway,
    ...(mtu === undefined ? {} : { mtu }),
  };

  // Before anything that may take its time: jobs may be running that have to end if it does.
  const watchdog = new Watchdog({ dir: join(config.FLYNN_STATE_DIR, 'watchdog'), log });
  watchdog.resume();
  await untilThere('the container engine', () => engine.ensureNetwork(network, { signal }), waiting);
  const machine = await untilThere('the container engine', () => engine.info({ signal }), waiting);
  tasks.run('builds left', (s) =>
    untilThere('what builds have left to go', () => engine.removeBuildsLeft({ signal: s }), { signal: s, log }),
  );
  tasks.run('containers', (s) => containers.run(s));
  if (trust !== undefined) runTrust(trust, containers, tasks);
  const hostNetwork = await startNetwork({ config, containers, log }, tasks);
  const absentMs = await absenceMs(config.FLYNN_STATE_DIR, systemClock.now());
  tasks.run('presence', (s) =>
    forever('noting that there is an agent', (limit) => keepPresence(config.FLYNN_STATE_DIR, limit), {
      signal: s,
      log,
    }),
  );
  const runs = await OwnRuns.open(config.FLYNN_STATE_DIR, log);
  const rivals = new Rivals(log, otherMachineFile(config.FLYNN_STATE_DIR, log));
  const standing = new Standing();
  const { mayStart, mayRun } = memberGuard({ config, runs, rivals, absenceMs: absentMs, log });
  const residentDir = join(config.FLYNN_STATE_DIR, 'resident');
  const residents = new Residents({ dir: residentDir, engine, containers, host, mayStart, mayRun, log });
  tasks.run('resident jobs', (s) => residents.run(s));
  tasks.run('network', (s) => forever('the network', () => keepNetwork(s), { signal: s, log }));
  const served = { gateway: host.gateway, log, signal };
  await serveNames(() => registry, { ...served, upstreams: config.FLYNN_DNS_UPSTREAMS });

  const record: HostRecord = {
    id: host.hostId,
    address: host.externalAddress,
    apiPort,
    capacity: capacityOf(machine),
    attributes: { ...siteAttributes(config), ...parseAttributes(config.FLYNN_ATTRIBUTES), host: host.hostId },
    cordoned: false,
    startedAt: systemClock.now(),
  };
  const { store, tls } = await connectStore();
  const engineDir = machine.rootDir ?? config.FLYNN_STATE_DIR;
  const localKey = await ensureLocalKey(config.FLYNN_STATE_DIR);
  const gate = roleGate(
    config.FLYNN_KEY,
    agentRules(() => peers.records(), localKey),
  );
  const examined = { config, version, engineVersion: machine.version, engineDir, store, tls, containers, log };
  const told = { ...examined, network: hostNetwork, identity: trust?.identity };
  const early = await serveEarly({ ...told, engine, record, rivals, port: apiPort, gate, signal });
  host.storeEndpoints = () => store.endpoints;
  const { FLYNN_STATE_DIR: stateDir } = config;
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
  const known = await untilThere('the store', () => createRegistry({ store, log, signal }), waiting);
  registry = known;
  // Two machines that are one host, one made of a copy of the other's disk, would do all of the following, each over the other.
  await untilAlone({ store, runs, rivals, hostId: host.hostId, signal, log });
  const hasLostData = () => residents.hasLostData(etcdJob);
  await startCluster({ config, engine, store, tls, peers, trust, hasLostData, log }, tasks);
  const member = tls === undefined ? undefined : memberTrustOf({ config, store, tls, containers, log });
  const handed = { stateDir, store, trust, peers: () => peers.others(), access, containers, member, log };
  const handedOver = await startHandedOver(handed, tasks);
  platformImages = await startPlatformImages({ store, engine, log }, tasks);
  const { isLeased } = await followCluster(hostNetwork, { store, registry: known, standing, log }, tasks);
  // Without certificates there is but one host, and nobody who would lease it anything.
  const hasLease = () => tls === undefined || isLeased();
  await serveDiscovery(known, served);
  startKeyspaces({ gateway: host.gateway, containers, store, tls, log }, tasks);

  const sessions = new Sessions(engine);
  const source = { engine, hostId: host.hostId };
  const sink = new AggregatorSink({ source: known, access, replay, log });
  const cursors = new LogCursors({ path: join(config.FLYNN_STATE_DIR, 'log-cursors.json'), log });
  await cursors.load();
  const pump = new LogPump({ engine, containers, cursors, sink, hostId: host.hostId, log });
  let running: Host | undefined;
  const upkeep = await startUpkeep(
    {
      stateDir: config.FLYNN_STATE_DIR,
      cluster: host.cluster,
      hostId: host.hostId,
      engine,
      containers,
      store,
      registry: known,
      watchdog,
      rivals,
      standing,
      uses,
      diskPath: engineDir,
      hasLease,
      host: () => running,
      platformImages,
      note: (container, message) => pump.note(container, message, signal),
      log,
    },
    tasks,
  );
  const { fence } = upkeep;
  const routers = new Routers({
    instances: async () => known.instances(routerService),
    ...access,
    log,
  });
  running = await startHost(
    {
      host,
      engine,
      containers,
      store,
      announcer: known,
      routers,
      async beforeStart(job, containerId) {
        if (isSingleton(job)) await fence.admit(containerId);
        if (job.template.stdin) await sessions.open(job.id, containerId, { logs: false });
      },
      note: (container, message) => pump.note(container, message, signal),
      mayStartSingletons: () => fence.isOpen,
      standing,
      isLogShipped: (container) => pump.isShipped(container),
      log,
    },
    tasks,
  );
  const { jobs, requestStop, assigned } = running;
  const note = (container: Container, message: string) => pump.note(container, message, signal);
  const attended = { engine, containers, sessions, assigned, requestStop, note, log };
  const unattended = new Unattended();
  tasks.run('jobs nobody is with', (s) =>
    forever('the jobs nobody is with', (limit) => keepAttended(attended, unattended, limit), { signal: s, log }),
  );
  tasks.run('instances left', (s) => withdrawLeft({ registry: known, containers, hostId: host.hostId, log }, s));
  tasks.run('logs', async (s) => {
    await Promise.all([sink.run(s), pump.run(s)]);
    // What the sink's last words confirmed.
    await cursors.save();
  });

  const statuses = () => [...jobs.records.values()].map((job) => job.status);
  const describe = () => {
    const all = containers.all();
    const mutual = { withoutIdentity: withoutIdentity(all), keyAlone: keyAlone(all, assigned()) };
    const { site, localAddress } = hostNetwork.settings;
    const place = site === undefined || localAddress === undefined ? {} : { localAddress };
    const said = { ...record, ...place, ...handedOver.told() };
    return upkeep.recordOf(trust === undefined ? said : { ...said, mutual });
  };
  if (trust !== undefined) {
    const isKnown = () => isEverybodyKnown(peers.records(), describe());
    tasks.run('who is let in', (s) => tellJobs({ jobs: trust.jobs, isEverybodyKnown: isKnown, log, signal: s }));
  }
  let schedulerFault: string | undefined;
  const operators = operatorHandlers({
    ...upkeep,
    record: describe,
    version,
    engineVersion: machine.version,
    store,
    containers,
    statuses,
    assigned,
    schedulerFault: () => schedulerFault,
    certificateFault: () => (tls === undefined ? undefined : certificateFault(tls.certificate, systemClock.now())),
    lines: () => ({ shipped: pump.shipped, dropped: sink.dropped }),
    metrics,
  });
  const doctor = startDoctor(
    {
      ...told,
      work: { fence, hasLease, statuses, assigned },
      rivals,
      schedulerFault: () => schedulerFault,
      rememberedHosts: () => peers.records(),
    },
    tasks,
  );
  findingMetrics(metrics, 'flynn_host_findings', doctor.findings);
  const handlers = agentHandlers({
    engine,
    containers,
    sessions,
    record,
    version,
    statuses,
    statusOf: (jobId) => jobs.get(jobId)?.status,
    requestStop,
    notesOf: (jobId) => pump.notesOf(jobId),
    log,
  });
  const installed = {
    installation: config.FLYNN_INSTALLATION,
    stateDir: config.FLYNN_STATE_DIR,
    dockerSocket: config.FLYNN_DOCKER_SOCKET,
    engine,
    engineDir,
  };
  const sizes = new VolumeSizes({ engine, signal, log });
  early.close();
  for (const address of new Set([host.gateway, host.externalAddress, '127.0.0.1'])) {
    await startServer({
      name: 'host-agent',
      handlers: [
        ...handlers,
        ...operators,
        ...doctor.handlers,
        ...workloadHandlers(store),
        ...networkHandlers(hostNetwork, store),
        ...volumeHandlers({ engine, containers, cluster: host.cluster, host: running, pump, sizes }),
        ...buildHandlers(engine, fetchBlob),
        ...backupFileHandlers(),
        ...handedOver.handlers,
        ...certificateHandlers(trust, (jobId) => containers.ofJob(jobId) !== undefined),
        ...installationHandlers({ ...installed, log }),
      ],
      log,
      host: address,
      port: apiPort,
      gate,
      mutual: trust?.identity,
      metrics,
      signal,
    });
  }
  if (config.FLYNN_SCHEDULER) {
    const schedulerPaths = config.FLYNN_SCHEDULERS;
    const own = await startOwnScheduler({ store, id: host.hostId, schedulerPaths, log }, tasks);
    schedulerFault = own.fault;
    schedulerMetrics(metrics, () => own.scheduler.counts);
  }
  const leaving = { store, registry: known, fence, runs, hostId: host.hostId, log };
  tasks.run('host record', async (s) => {
    const announced = await keepAnnounced(store, describe, {
      signal: s,
      log,
      beforeAnnounced: upkeep.beforeAnnounced,
      onAnnounced: (lease, revision) => upkeep.onAnnounced(describe(), lease, revision, s),
      runs,
      onRival: upkeep.onRival,
      untilTaken: (standing, limit) => upkeep.neighbours.untilTaken(standing, limit),
    });
    if (announced !== undefined && deps.isToReturn()) await prepareAbsence(announced, leaving);
  });

  async function keepNetwork(signal: AbortSignal): Promise<void> {
    await systemClock.sleep(networkResyncMs, { signal });
    if (containers.isCurrent) await engine.ensureNetwork(network, { signal });
  }

  async function* replay(signal: AbortSignal) {
    for (const container of containers.all().filter(({ state }) => state === 'running')) {
      yield* linesOf(source, container, {
        tail: replayedLines,
        signal,
        // What the pump has yet to hand over would be there twice, and before what is older.
        until: cursors.get(container.id).cursor,
      });
    }
  }
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
