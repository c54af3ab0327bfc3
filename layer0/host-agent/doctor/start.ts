/** The agent's doctors put together, and their part of its API. */
import { systemClock } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import { handle } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { LiveIdentity } from '@flynn/kit/identity';
import type { Logger } from '@flynn/kit/log';
import type { TaskGroup } from '@flynn/kit/tasks';
import { cellPrefix } from '@flynn/scheduler/cell';
import type { HostJob, HostRecord, JobStatus } from '@flynn/scheduler/cell';
import type { EtcdClient } from '@flynn/store/etcd';
import type { EtcdTls } from '@flynn/store/etcd-members';
import { etcdStatus } from '@flynn/store/etcd-status';
import { agentClient } from '../agent-client.ts';
import { clientUrlOf, etcdQuotaBytes } from '../cluster/etcd-resident.ts';
import type { Config } from '../config.ts';
import type { ContainerTable } from '../containers/table.ts';
import type { HangWatch } from '../engine/hang.ts';
import type { Fence } from '../fencing/fence.ts';
import type { HostNetwork } from '../network/host-network.ts';
import { jobIdOf } from '../jobs/plan.ts';
import type { Rivals } from '../fencing/rivals.ts';
import { readUpdate } from '../update/record.ts';
import { readAddress } from './address.ts';
import { doctorRoutes } from './api.ts';
import type { HostExamination } from './api.ts';
import { ClusterDoctor } from './cluster.ts';
import type { Finding } from './finding.ts';
import { HostDoctor } from './host.ts';
import { awayAddresses, knownHosts } from './known-hosts.ts';
import { ownCertificates } from './own-certificates.ts';
import { ProcessorUse } from './processor-use.ts';
import { ReachCheck } from './reach.ts';

export type DoctorDeps = Readonly<{
  config: Config;
  version: string;
  engineVersion: string;
  /** Where the engine keeps its files. */
  engineDir: string;
  store: EtcdClient;
  tls: EtcdTls | undefined;
  containers: ContainerTable;
  hang: Pick<HangWatch, 'since'>;
  network: Pick<HostNetwork, 'repairedAt' | 'problems' | 'holders' | 'neighbours'>;
  /** Undefined while the agent waits for the store: it knows nothing of what is to run then. */
  work:
    | Readonly<{
        fence: Pick<Fence, 'isOpen'>;
        hasLease: () => boolean;
        statuses: () => JobStatus[];
        assigned: () => readonly HostJob[];
      }>
    | undefined;
  rivals: Pick<Rivals, 'known'>;
  schedulerFault: () => string | undefined;
  rememberedHosts: () => readonly HostRecord[];
  /** As which other hosts are asked. */
  identity: LiveIdentity | undefined;
  log: Logger;
}>;

export type Doctor = Readonly<{
  handlers: readonly Handler[];
  /** What was wrong on this host when it was last looked at. */
  findings: () => readonly Finding[];
}>;

/** It looks at its host now and then in the group. */
export function startDoctor(deps: DoctorDeps, tasks: TaskGroup): Doctor {
  const host = hostDoctor(deps);
  tasks.run('doctor', (signal) => host.run(signal, deps.log));
  return { findings: () => host.findings, handlers: handlersOf(host, deps) };
}

/** It looks when it is asked. */
export function doctorHandlers(deps: DoctorDeps): readonly Handler[] {
  return handlersOf(hostDoctor(deps), deps);
}

function handlersOf(host: HostDoctor, deps: DoctorDeps): readonly Handler[] {
  const { config, store, tls } = deps;
  const trusting = tls === undefined ? {} : { tls };
  const cluster = new ClusterDoctor({
    hostId: config.FLYNN_HOST_ID,
    store,
    knownHosts: (signal) => knownHosts(store, { signal }),
    rememberedHosts: deps.rememberedHosts,
    async ask(record, patienceMs, signal) {
      if (record.id === config.FLYNN_HOST_ID) return host.examine(patienceMs, signal);
      const access = { key: config.FLYNN_KEY, identity: deps.identity };
      await using client = agentClient(record, access);
      return await client.call(doctorRoutes.host, { query: { patienceMs } }, { signal, timeoutMs: patienceMs });
    },
    etcd: (signal) => etcdStatus({ endpoints: store.endpoints, signal, ...trusting }),
    async strangers(signal) {
      // Without the store nobody is known to be away.
      const addresses = await awayAddresses(store, { signal }).catch((): string[] => []);
      const endpoints = addresses.map(clientUrlOf).filter((endpoint) => !store.endpoints.includes(endpoint));
      return (await etcdStatus({ endpoints, signal, ...trusting })).members;
    },
    quotaBytes: () => etcdQuotaBytes(config.FLYNN_STATE_DIR),
    now: () => systemClock.now(),
  });
  return [
    handle(doctorRoutes.host, async ({ query, signal }) => host.examine(query.patienceMs, signal)),
    handle(doctorRoutes.cluster, async ({ query: { patienceMs, work = false }, signal }) =>
      cluster.examine({ patienceMs, work, signal }),
    ),
  ];
}

function hostDoctor(deps: DoctorDeps): HostDoctor {
  const { config, containers, network, store, work } = deps;
  const processors = new ProcessorUse();
  const reach = new ReachCheck({ neighbours: () => network.neighbours });
  return new HostDoctor({
    hostId: config.FLYNN_HOST_ID,
    version: deps.version,
    engineVersion: deps.engineVersion,
    scheduler: () => (work === undefined ? 'off' : schedulerState(config, deps.schedulerFault())),
    places: [
      { holds: "the agent's state", path: config.FLYNN_STATE_DIR },
      { holds: "the engine's data, etcd's and all volumes", path: deps.engineDir },
    ],
    cpuUsedPercent: () => processors.percent(),
    async agentFacts(signal) {
      return {
        isEngineConnected: containers.isCurrent,
        engineHang: deps.hang.since === undefined ? undefined : { since: deps.hang.since, version: deps.engineVersion },
        storeError: await storeError(store, signal),
        // Before there is one, what it would stop is with the watchdog that the agent before this one left.
        isFenceOpen: work?.fence.isOpen ?? true,
        rival: deps.rivals.known(),
        hasLease: work?.hasLease() ?? true,
        isWaiting: work === undefined,
        schedulerFault: deps.schedulerFault(),
      };
    },
    drift() {
      if (!containers.isCurrent || work === undefined) return undefined;
      return {
        assigned: work.assigned(),
        statuses: work.statuses(),
        containers: containers.assigned(),
        networkRepairs: network.repairedAt,
        networkProblems: network.problems,
      };
    },
    reach: (subject, signal) => reach.find(subject, signal),
    crowding() {
      const [first] = network.holders;
      const container = containers.all().find(({ address }) => address !== undefined && address === first?.address);
      if (first === undefined || container === undefined) return undefined;
      return { name: container.name, jobId: jobIdOf(container), count: first.count, isHeld: first.isHeld };
    },
    certificates: () => ownCertificates(config),
    update: () => readUpdate(config.FLYNN_STATE_DIR),
    address: () => readAddress(config.FLYNN_ADDRESS, config.FLYNN_BRIDGE, config.FLYNN_SITE),
    now: () => systemClock.now(),
  });
}

function schedulerState(config: Config, fault: string | undefined): HostExamination['scheduler'] {
  if (!config.FLYNN_SCHEDULER) return 'off';
  return fault === undefined ? 'runs' : 'without-own';
}

/** A write would be refused while there is no quorum, and a read as well: what this tells holds for both. */
export async function storeError(store: EtcdClient, signal: AbortSignal): Promise<string | undefined> {
  try {
    await store.get(cellPrefix, { signal });
    return undefined;
  } catch (error) {
    return signal.aborted ? 'it does not answer in time' : messageOf(error);
  }
}
