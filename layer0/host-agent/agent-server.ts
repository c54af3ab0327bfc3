/** The agent's API put together, and served. */
import { systemClock } from '@flynn/kit/clock';
import { startServer } from '@flynn/kit/http-server';
import type { Handler } from '@flynn/kit/http-server';
import type { Logger } from '@flynn/kit/log';
import type { Metrics } from '@flynn/kit/metrics';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { HostRecord } from '@flynn/scheduler/cell';
import { buildHandlers } from './builds/server.ts';
import { certificateFault } from './cluster/certificate-age.ts';
import type { Peers } from './cluster/start.ts';
import type { Config } from './config.ts';
import { backupFileHandlers } from './disk/backup-files.ts';
import { findingMetrics } from './doctor/metrics.ts';
import { startDoctor } from './doctor/start.ts';
import type { Entered } from './enter-cluster.ts';
import type { Ground } from './ground.ts';
import { networkHandlers } from './network/server.ts';
import { operatorHandlers } from './operator-server.ts';
import { agentHandlers } from './server.ts';
import type { HostTrust } from './trust/host-trust.ts';
import { certificateHandlers } from './trust/server.ts';
import { installationHandlers } from './update/installation.ts';
import { VolumeSizes } from './volumes/sizes.ts';
import { volumeHandlers } from './volumes/volumes.ts';
import type { Work } from './work.ts';
import { workloadHandlers } from './workloads/server.ts';

export type ServedDeps = Readonly<{
  config: Config;
  version: string;
  peers: Peers;
  trust: HostTrust | undefined;
  record: HostRecord;
  /** The record as it is now. */
  describe: () => HostRecord;
  schedulerFault: () => string | undefined;
  metrics: Metrics;
  log: Logger;
}>;

/** Takes the early API's place. Resolves when it is served, until the group ends. */
export async function serveAgent(
  deps: ServedDeps,
  ground: Ground,
  entered: Entered,
  work: Work,
  tasks: TaskGroup,
): Promise<void> {
  const { trust, record, metrics, log } = deps;
  const handlers = handlersOf(deps, ground, entered, work, tasks);
  entered.early.close();
  for (const host of new Set([ground.host.gateway, record.address, '127.0.0.1'])) {
    await startServer({
      name: 'host-agent',
      handlers,
      log,
      host,
      port: record.apiPort,
      gate: entered.gate,
      mutual: trust?.identity,
      metrics,
      signal: tasks.signal,
    });
  }
}

function handlersOf(
  deps: ServedDeps,
  { host: settings, engine, machine, engineDir, fetchBlob, containers, hang, network, rivals }: Ground,
  { store, tls, handedOver, hasLease, examined }: Entered,
  { host, sessions, logs, upkeep, statuses }: Work,
  tasks: TaskGroup,
): Handler[] {
  const { config, version, peers, trust, record, describe, schedulerFault, metrics, log } = deps;
  const { FLYNN_STATE_DIR: stateDir } = config;
  const { jobs, requestStop, assigned } = host;
  const { pump } = logs;
  const { fence } = upkeep;
  const work = { fence, hasLease, statuses, assigned };
  const doctor = startDoctor(
    { ...examined, work, rivals, schedulerFault, rememberedHosts: () => peers.records() },
    tasks,
  );
  findingMetrics(metrics, 'flynn_host_findings', doctor.findings);
  const sizes = new VolumeSizes({ engine, signal: tasks.signal, log });
  return [
    ...agentHandlers({
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
    }),
    ...operatorHandlers({
      ...upkeep,
      record: describe,
      version,
      engineVersion: machine.version,
      store,
      containers,
      hang,
      statuses,
      assigned,
      schedulerFault,
      certificateFault: () => (tls === undefined ? undefined : certificateFault(tls.certificate, systemClock.now())),
      lines: logs.counts,
      metrics,
    }),
    ...doctor.handlers,
    ...workloadHandlers(store),
    ...networkHandlers(network, store),
    ...volumeHandlers({ engine, containers, cluster: settings.cluster, host, pump, sizes }),
    ...buildHandlers(engine, fetchBlob),
    ...backupFileHandlers(),
    ...handedOver.handlers,
    ...certificateHandlers(trust, (jobId) => containers.ofJob(jobId) !== undefined),
    ...installationHandlers({
      installation: config.FLYNN_INSTALLATION,
      stateDir,
      dockerSocket: config.FLYNN_DOCKER_SOCKET,
      engine,
      engineDir,
      log,
    }),
  ];
}
