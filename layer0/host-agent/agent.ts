/** The host agent put together: what starts when, and what it waits for. */
import { systemClock } from '@flynn/kit/clock';
import type { Metrics } from '@flynn/kit/metrics';
import type { TaskGroup } from '@flynn/kit/tasks';
import type { HostRecord } from '@flynn/scheduler/cell';
import { schedulerMetrics } from '@flynn/scheduler/scheduler-metrics';
import { parseAttributes, siteAttributes } from './config.ts';
import { enterCluster } from './enter-cluster.ts';
import type { Entered, EntryDeps } from './enter-cluster.ts';
import { prepareGround } from './ground.ts';
import type { Ground, GroundDeps } from './ground.ts';
import { prepareAbsence } from './hosts/absence.ts';
import { capacityOf, keepAnnounced } from './hosts/record.ts';
import { startOwnScheduler } from './own-scheduler.ts';
import { serveAgent } from './agent-server.ts';
import { isEverybodyKnown, keyAlone, withoutIdentity } from './trust/agent-rules.ts';
import { tellJobs } from './trust/closing.ts';
import packageFile from './package.json' with { type: 'json' };
import { startWork } from './work.ts';
import type { Work } from './work.ts';

/** Of the program, which a bundle may have stamped. */
const { version } = packageFile;
export const apiPort = 1113;

export type AgentDeps = GroundDeps &
  Pick<EntryDeps, 'connectStore' | 'peers'> &
  Readonly<{
    tasks: TaskGroup;
    metrics: Metrics;
    /** Whether it was stopped to be started again at once. */
    isToReturn: () => boolean;
  }>;

/**
 * Resolves when the host takes jobs. Before there is a store the resident jobs run, one of which may be the store; jobs have DNS,
 * and root on this machine is told how the host is. The engine and the store may come minutes later: it waits for them.
 */
export async function startAgent(deps: AgentDeps): Promise<void> {
  const { config, log, tasks, peers, trust, metrics } = deps;
  const ground = await prepareGround(deps, tasks);
  const record: HostRecord = {
    id: ground.host.hostId,
    address: config.FLYNN_ADDRESS,
    apiPort,
    capacity: capacityOf(ground.machine),
    attributes: {
      ...siteAttributes(config),
      ...parseAttributes(config.FLYNN_ATTRIBUTES),
      host: config.FLYNN_HOST_ID,
    },
    cordoned: false,
    startedAt: systemClock.now(),
  };
  const entered = await enterCluster({ ...deps, version, record }, ground, tasks);
  const { store } = entered;
  const work = await startWork({ stateDir: config.FLYNN_STATE_DIR, log }, ground, entered, tasks);

  const describe = () => {
    const all = ground.containers.all();
    const mutual = { withoutIdentity: withoutIdentity(all), keyAlone: keyAlone(all, work.host.assigned()) };
    const { site, localAddress } = ground.network.settings;
    const place = site === undefined || localAddress === undefined ? {} : { localAddress };
    const said = { ...record, ...place, ...entered.handedOver.told() };
    return work.upkeep.recordOf(trust === undefined ? said : { ...said, mutual });
  };
  if (trust !== undefined) {
    const isKnown = () => {
      trust.isEverybodyKnown = isEverybodyKnown(peers.records(), describe());
      return trust.isEverybodyKnown;
    };
    tasks.run('who is let in', (s) => tellJobs({ jobs: trust.jobs, isEverybodyKnown: isKnown, log, signal: s }));
  }
  let schedulerFault: string | undefined;
  const served = { config, version, peers, trust, record, describe, metrics, log };
  await serveAgent({ ...served, schedulerFault: () => schedulerFault }, ground, entered, work, tasks);
  if (config.FLYNN_SCHEDULER) {
    const schedulerPaths = config.FLYNN_SCHEDULERS;
    const own = await startOwnScheduler({ store, id: record.id, schedulerPaths, log }, tasks);
    schedulerFault = own.fault;
    schedulerMetrics(metrics, () => own.scheduler.counts);
  }
  announce(deps, { ground, entered, work, describe });
}

/** Keeps the host's record there, by which it is given jobs, and opens what waits for that. */
function announce(
  { log, tasks, isToReturn }: Pick<AgentDeps, 'log' | 'tasks' | 'isToReturn'>,
  { ground, entered, work, describe }: { ground: Ground; entered: Entered; work: Work; describe: () => HostRecord },
): void {
  const { store, registry } = entered;
  const { upkeep } = work;
  const { runs, host } = ground;
  const leaving = { store, registry, fence: upkeep.fence, runs, hostId: host.hostId, log };
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
    if (announced !== undefined && isToReturn()) await prepareAbsence(announced, leaving);
  });
}
