/** The host agent put together: what starts when, and what it waits for. */
import { join } from 'node:path';
import { systemClock } from '@flynn/kit/clock';
import { hasCode } from '@flynn/kit/errors';
import { startServer } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import { startDnsServer } from '@flynn/discovery/dns';
import { createRegistry } from '@flynn/discovery/registry';
import type { Registry } from '@flynn/discovery/registry';
import { discoveryHandlers } from '@flynn/discovery/server';
import type { HostRecord } from '@flynn/scheduler/cell';
import { startScheduler } from '@flynn/scheduler/scheduler';
import type { Store } from '@flynn/store/store';
import { blobFetcher, blobService } from './blobs.ts';
import { gatewayOf, parseAttributes, parseUpstream } from './config.ts';
import type { Config } from './config.ts';
import { ContainerTable } from './container-table.ts';
import type { Engine, FetchBlob } from './engine.ts';
import { startHost } from './host.ts';
import { capacityOf, keepAnnounced, untilThere } from './host-record.ts';
import { LogCursors } from './log-cursors.ts';
import { LogPump } from './log-pump.ts';
import { linesOf } from './log-read.ts';
import { AggregatorSink } from './log-sink.ts';
import { outOfMemoryMessage } from './outcome.ts';
import { Residents } from './resident.ts';
import { agentHandlers } from './server.ts';
import { Sessions } from './session.ts';
import type { HostSettings } from './spec.ts';
import { unusedStacks } from './stack-gc.ts';

const version = '0.1.0';
const discoveryPort = 1111;
const dnsPort = 53;
export const apiPort = 1113;
const replayedLines = 1_000;
const networkResyncMs = 30_000;
const collectEveryMs = 600_000;

export type AgentDeps = {
  config: Config;
  log: Logger;
  tasks: TaskGroup;
  connectEngine: (fetchBlob: FetchBlob) => Engine;
  connectStore: () => Store;
};

/**
 * Resolves when the host takes jobs. Before there is a store the resident jobs run, one of which may be the store. The
 * engine and the store may come minutes later: it waits for them.
 */
export async function startAgent({ config, log, tasks, connectEngine, connectStore }: AgentDeps): Promise<void> {
  const { signal } = tasks;
  const waiting = { signal, log };
  const host = settingsOf(config);
  let registry: Registry | undefined;
  const engine = connectEngine(blobFetcher(() => registry?.instances(blobService) ?? [], config.FLYNN_KEY));
  const containers = new ContainerTable({ engine, log });
  const network = {
    name: host.networkName,
    bridge: config.FLYNN_BRIDGE,
    subnet: config.FLYNN_SUBNET,
    gateway: host.gateway,
  };

  await untilThere('the container engine', () => engine.ensureNetwork(network, { signal }), waiting);
  const machine = await untilThere('the container engine', () => engine.info({ signal }), waiting);
  tasks.run('containers', (s) => containers.run(s));
  const residents = new Residents({ dir: join(config.FLYNN_STATE_DIR, 'resident'), engine, containers, host, log });
  tasks.run('resident jobs', (s) => residents.run(s));
  tasks.run('network', (s) => forever('the network', () => keepNetwork(s), { signal: s, log }));

  const store = connectStore();
  await untilThere('the store', () => store.get('/flynn/', { signal }), waiting);
  const known = await untilThere('the store', () => createRegistry({ store, log, signal }), waiting);
  registry = known;
  await serveDiscovery(known);

  const sessions = new Sessions(engine);
  const source = { engine, hostId: host.hostId };
  const sink = new AggregatorSink({ source: known, key: config.FLYNN_KEY, replay, log });
  const cursors = new LogCursors({ path: join(config.FLYNN_STATE_DIR, 'log-cursors.json'), log });
  await cursors.load();
  const pump = new LogPump({ engine, containers, cursors, sink, hostId: host.hostId, log });
  const { jobs, requestStop } = await startHost(
    {
      host,
      engine,
      containers,
      store,
      announcer: known,
      beforeStart: async (job, containerId) => void (await sessions.open(job.id, containerId, { logs: false })),
      isLogShipped: (container) => pump.isShipped(container),
      log,
    },
    tasks,
  );
  tasks.run('log sink', (s) => sink.run(s));
  tasks.run('log pump', (s) => pump.run(s));
  containers.onOutOfMemory((container) => pump.note(container, outOfMemoryMessage(undefined), signal));
  tasks.run('stacks', (s) => forever('collecting stacks', () => collectStacks(s), { signal: s, log }));

  const record: HostRecord = {
    id: host.hostId,
    address: host.externalAddress,
    apiPort,
    capacity: capacityOf(machine),
    attributes: { ...parseAttributes(config.FLYNN_ATTRIBUTES), host: host.hostId },
    cordoned: false,
    startedAt: systemClock.now(),
  };
  const handlers = agentHandlers({
    engine,
    containers,
    sessions,
    record,
    version,
    statuses: () => [...jobs.records.values()].map((job) => job.status),
    statusOf: (jobId) => jobs.get(jobId)?.status,
    requestStop,
    notesOf: (jobId) => pump.notesOf(jobId),
    log,
  });
  for (const address of new Set([host.gateway, host.externalAddress, '127.0.0.1'])) {
    await startServer({
      name: 'host-agent',
      handlers,
      log,
      host: address,
      port: apiPort,
      key: config.FLYNN_KEY,
      signal,
    });
  }
  if (config.FLYNN_SCHEDULER) await startScheduler({ store, log, signal, id: host.hostId, tasks });
  tasks.run('host record', (s) => keepAnnounced(store, record, { signal: s, log }));

  async function serveDiscovery(registry: Registry): Promise<void> {
    const handlers = discoveryHandlers(registry, waiting);
    for (const address of [host.gateway, '127.0.0.1']) {
      await startServer({ name: 'discovery', handlers, log, host: address, port: discoveryPort, signal });
    }
    const upstreams = config.FLYNN_DNS_UPSTREAMS?.map(parseUpstream);
    const dns = { registry, log, signal, address: host.gateway, port: dnsPort };
    await startDnsServer({ ...dns, ...(upstreams === undefined ? {} : { upstreams }) });
  }

  async function keepNetwork(signal: AbortSignal): Promise<void> {
    await systemClock.sleep(networkResyncMs, { signal });
    if (containers.isCurrent) await engine.ensureNetwork(network, { signal });
  }

  async function* replay(signal: AbortSignal) {
    for (const container of containers.all().filter(({ state }) => state === 'running')) {
      yield* linesOf(source, container, { tail: replayedLines, signal });
    }
  }

  async function collectStacks(signal: AbortSignal): Promise<void> {
    await systemClock.sleep(collectEveryMs, { signal });
    if (!containers.isCurrent) return;
    const images = await engine.listImages({ signal });
    const unused = unusedStacks({ images, containers: containers.all(), now: systemClock.now() });
    for (const { id, refs } of unused) {
      try {
        await engine.removeImage(id, { signal });
      } catch (error) {
        // Something came to need it meanwhile; the others can still go.
        if (!hasCode(error, 'conflict', 'not_found')) throw error;
        log.debug({ err: error, refs }, 'a stack that seemed unused stays');
      }
    }
  }
}

function settingsOf(config: Config): HostSettings {
  return {
    cluster: config.FLYNN_CLUSTER,
    hostId: config.FLYNN_HOST_ID,
    externalAddress: config.FLYNN_ADDRESS,
    gateway: gatewayOf(config.FLYNN_SUBNET),
    networkName: config.FLYNN_BRIDGE,
  };
}
