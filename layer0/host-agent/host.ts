/** The heart of the agent: engine, store and discovery in, converging host out. */
import type { Logger } from '@flynn/kit/log';
import type { TaskGroup } from '@flynn/kit/tasks';
import { cellKeys } from '@flynn/scheduler/cell';
import type { HostJob } from '@flynn/scheduler/cell';
import { appAttribute } from '@flynn/discovery/parts';
import { openMirror } from '@flynn/store/mirror';
import type { Revision, Store } from '@flynn/store/store';
import type { Announcer } from './discovery/announcer.ts';
import { AssignedJobs, decodeAssignment } from './jobs/assigned.ts';
import type { DesiredJob, HostAssignment } from './jobs/assigned.ts';
import { ContainerTable } from './containers/table.ts';
import { Convergence } from './jobs/convergence.ts';
import { type EndingLimits, Endings } from './jobs/endings.ts';
import type { Container, Engine } from './engine/engine.ts';
import { announcedNamesOf } from './health/health.ts';
import { JobTable } from './jobs/table.ts';
import { isSingleton } from './engine/labels.ts';
import { outOfMemoryMessage } from './jobs/outcome.ts';
import { jobIdOf } from './jobs/plan.ts';
import { Slots } from '@flynn/kit/slots';
import { limitsOf } from './containers/spec.ts';
import type { Standing } from './fencing/standing.ts';
import type { HostSettings } from './containers/spec.ts';
import { StatusWriter } from './jobs/status-writer.ts';
import type { StepContext } from './jobs/steps.ts';

/** The engine works on a start mostly in the kernel; beyond a few at once they only wait for each other. */
const startsAtOnce = 8;
const removalsAtOnce = 4;

export type HostDeps = {
  host: HostSettings;
  engine: Engine;
  /** Shared with whoever else follows the containers; its `run` is the caller's. */
  containers: ContainerTable;
  store: Store;
  announcer: Announcer;
  routers?: StepContext['routers'];
  beforeStart: StepContext['beforeStart'];
  note: StepContext['note'];
  isLogShipped: (container: Container) => boolean;
  /** A job of which there must never be two waits until this says so. */
  mayStartSingletons: () => boolean;
  /** Jobs that cannot be started are given back meanwhile. */
  isEngineHung: StepContext['isEngineHung'];
  /** How many end at a time, where it is not as usual. */
  endings?: EndingLimits | undefined;
  /** Without it nothing is done to jobs, and nothing said of them. */
  standing: Standing;
  log: Logger;
};

export type Host = {
  jobs: JobTable;
  /** Resolves once everything assigned up to the revision is known here. */
  caughtUp: (revision: Revision, signal: AbortSignal) => Promise<void>;
  requestStop: (jobId: string) => void;
  assigned: () => readonly HostJob[];
  /** Whether it is not known of all jobs what they are to run: not yet, or not by what this version can read. */
  unresolved: () => 'yet' | 'unreadable' | undefined;
};

/** Resolves when the host converges; its tasks run in the group. */
export async function startHost(deps: HostDeps, tasks: TaskGroup): Promise<Host> {
  const { store, log, host } = deps;
  const writer = new StatusWriter({ store, hostId: host.hostId, standing: deps.standing, log });
  const jobs = new JobTable(writer);
  await jobs.load(store, host.hostId, log, tasks.signal);
  let tellUnreadable = (): void => {};
  const assignments = await openMirror<HostAssignment>({
    store,
    prefix: cellKeys.hostAssignments(host.hostId),
    decode: (json, _key, { key: entry }) =>
      decodeAssignment(json, (err) =>
        log.error({ err, entry }, 'an assignment cannot be read: its jobs stay as they are'),
      ),
    onUnreadable: () => tellUnreadable(),
    log,
    signal: tasks.signal,
  });
  const context: StepContext = {
    host,
    engine: deps.engine,
    containers: deps.containers,
    jobs,
    announcer: deps.announcer,
    routers: deps.routers,
    monitors: new Map(),
    startSlots: new Slots(startsAtOnce),
    endings: new Endings(deps.engine, deps.endings),
    removalSlots: new Slots(removalsAtOnce),
    isEngineHung: deps.isEngineHung,
    beforeStart: deps.beforeStart,
    note: deps.note,
    log,
  };
  const mayStart = (job: HostJob) => !isSingleton(job) || deps.mayStartSingletons();
  const assigned = new AssignedJobs({ store, assignments, log });
  tellUnreadable = () => assigned.tell();
  const { isLogShipped, standing } = deps;
  const convergence = new Convergence({ context, assigned, isLogShipped, mayStart, standing });
  // Before a job is up, and of names that it may never have: who took one meanwhile would be sent what is meant for the job.
  const vouch = () => deps.announcer.vouchFor(namesOfApps(convergence.assigned));
  assigned.onChange(vouch);
  vouch();
  const off = deps.containers.onOutOfMemory((container) => {
    const job = convergence.assigned.find(({ id }) => id === jobIdOf(container));
    deps.note(container, outOfMemoryMessage(job && limitsOf(job.template).memoryBytes));
  });
  tasks.signal.addEventListener('abort', off, { once: true });
  tasks.run('job statuses', (signal) => writer.run(signal));
  tasks.run('job templates', (signal) => assigned.run(signal));
  tasks.run('convergence', (signal) => convergence.run(signal));
  return {
    jobs,
    caughtUp: async (revision, signal) => void (await assignments.reached(revision, { signal })),
    requestStop: (jobId) => convergence.requestStop(jobId),
    assigned: () => convergence.assigned,
    unresolved() {
      const { jobs: desired, unresolved, unread } = assigned.current();
      if (unread === 'any' || unread.size > 0 || desired.values().some(isUnread)) return 'unreadable';
      return unresolved.size > 0 ? 'yet' : undefined;
    },
  };
}

/** What jobs of apps and of the platform may be announced as: no others than agents do that. */
function namesOfApps(jobs: readonly HostJob[]): string[] {
  return jobs
    .filter(({ template: { meta, identity } }) => appAttribute in meta || identity !== undefined)
    .flatMap(announcedNamesOf);
}

function isUnread(job: DesiredJob): boolean {
  return job.template === undefined && job.problem.isUnreadable;
}
