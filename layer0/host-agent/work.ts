/** The host's jobs at work: run, guarded, measured, shipped and joined by people. */
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { TaskGroup } from '@flynn/kit/tasks';
import { Routers, routerService } from '@flynn/discovery/routers';
import type { JobStatus } from '@flynn/scheduler/cell';
import type { Container } from './engine/engine.ts';
import { isSingleton } from './engine/labels.ts';
import { withdrawLeft } from './discovery/left-instances.ts';
import type { Entered } from './enter-cluster.ts';
import type { Ground } from './ground.ts';
import { startHost } from './host.ts';
import type { Host } from './host.ts';
import { openLogs } from './logs/start.ts';
import type { Logs } from './logs/start.ts';
import { Sessions } from './sessions/session.ts';
import { Unattended, keepAttended } from './sessions/unattended.ts';
import { startUpkeep } from './upkeep.ts';
import type { Upkeep } from './upkeep.ts';

export type Work = Readonly<{
  host: Host;
  sessions: Sessions;
  logs: Logs;
  upkeep: Upkeep;
  statuses: () => JobStatus[];
}>;

/** Resolves when the host takes jobs. */
export async function startWork(
  { stateDir, log }: Readonly<{ stateDir: string; log: Logger }>,
  ground: Ground,
  { store, registry, hasLease }: Pick<Entered, 'store' | 'registry' | 'hasLease'>,
  tasks: TaskGroup,
): Promise<Work> {
  const {
    host: settings,
    access,
    engine,
    engineDir,
    containers,
    hang,
    uses,
    known,
    watchdog,
    rivals,
    standing,
  } = ground;
  const { hostId, cluster } = settings;
  const { signal } = tasks;
  const sessions = new Sessions(engine);
  const logs = await openLogs({ stateDir, hostId, engine, containers, registry, access, log });
  const { pump } = logs;
  const note = (container: Container, message: string) => pump.note(container, message, signal);
  let running: Host | undefined;
  const upkeep = await startUpkeep(
    {
      stateDir,
      cluster,
      hostId,
      engine,
      containers,
      hang,
      store,
      registry,
      watchdog,
      rivals,
      standing,
      uses,
      node: settings.node,
      diskPath: engineDir,
      hasLease,
      host: () => running,
      platformImages: () => known.platformImages(),
      note,
      log,
    },
    tasks,
  );
  const { fence } = upkeep;
  const routers = new Routers({ instances: async () => registry.instances(routerService), ...access, log });
  const host = await startHost(
    {
      host: settings,
      engine,
      containers,
      store,
      announcer: registry,
      routers,
      async beforeStart(job, containerId) {
        if (isSingleton(job)) await fence.admit(containerId);
        if (job.template.stdin) await sessions.open(job.id, containerId, { logs: false });
      },
      note,
      mayStartSingletons: () => fence.isOpen,
      isEngineHung: () => hang.since !== undefined,
      standing,
      isLogShipped: (container) => pump.isShipped(container),
      log,
    },
    tasks,
  );
  running = host;
  const { jobs, requestStop, assigned } = host;
  const attended = { engine, containers, sessions, assigned, requestStop, note, log };
  const unattended = new Unattended();
  tasks.run('jobs nobody is with', (s) =>
    forever('the jobs nobody is with', (limit) => keepAttended(attended, unattended, limit), { signal: s, log }),
  );
  tasks.run('instances left', (s) => withdrawLeft({ registry, containers, hostId, log }, s));
  logs.start(tasks);
  return { host, sessions, logs, upkeep, statuses: () => [...jobs.records.values()].map((job) => job.status) };
}
