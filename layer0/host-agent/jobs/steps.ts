/** Carries the plan's steps out: one executor for every type of step. */
import { systemClock } from '@flynn/kit/clock';
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { HostJob, JobStatus } from '@flynn/scheduler/cell';
import type { Announcer } from '../discovery/announcer.ts';
import { startPatience } from './backoff.ts';
import type { Endings } from './endings.ts';
import type { ContainerTable } from '../containers/table.ts';
import type { Container, Engine } from '../engine/engine.ts';
import { listensElsewhere, listensItself } from '../health/kernel-listening.ts';
import type { JobTable } from './table.ts';
import { containerName, groupOf, volumeName, label, ownLabel } from '../engine/labels.ts';
import { JobMonitor } from '../health/monitor.ts';
import { outcomeOfFailedStart } from './outcome.ts';
import type { Step } from './plan.ts';
import { newRecord, withoutRun } from './record.ts';
import type { JobRecord } from './record.ts';
import { stopJob } from './stopping.ts';
import type { Slots } from '@flynn/kit/slots';
import { containerSpecOf, isOfFormerPlace, saysMoreThanJob } from '../containers/spec.ts';
import type { Routers } from '@flynn/discovery/routers';
import type { HostSettings } from '../containers/spec.ts';

export type StepContext = {
  host: HostSettings;
  engine: Engine;
  containers: ContainerTable;
  jobs: JobTable;
  announcer: Announcer;
  /** Without them nobody is asked before a job stops. */
  routers: Pick<Routers, 'missing' | 'haveEnded'> | undefined;
  monitors: Map<string, JobMonitor>;
  /** Starts under way at once: more would only queue in the engine, and keep it from answering anything else. */
  startSlots: Slots;
  /** Whether the engine ends nothing that it is asked to do. */
  isEngineHung: () => boolean;
  /** By which containers are stopped: of many that end at a time an engine may hang. */
  endings: Pick<Endings, 'stop'>;
  /** Removals under way at once: of many at a time an engine may hang. */
  removalSlots: Slots;
  /** Called between the creation and the start of a container; what it throws is why it is not started. */
  beforeStart: (job: HostJob, containerId: string) => Promise<void>;
  /** Says it in the job's log. */
  note: (container: Container, message: string) => void;
  log: Logger;
};

export type StepOf<T extends Step['type']> = Extract<Step, { type: T }>;

export async function execute(step: Step, context: StepContext, signal: AbortSignal): Promise<void> {
  switch (step.type) {
    case 'start':
      return startJob(step, context, signal);
    case 'adopt':
      await context.monitors.get(step.jobId)?.stop({ keepAnnounced: false });
      return watch(step.job, step.container, context, { record: recordOf(step.job, context), isAdopted: true });
    case 'stop':
      return stopJob(step, context, signal);
    case 'settle':
      return settleJob(step, context);
    case 'remove':
      await context.removalSlots.run(() => context.engine.remove(step.container.id, { signal }), { signal });
      return context.containers.delete(step.container.id);
    case 'forget':
      return context.jobs.forget(step.jobId);
    case 'wait':
      return undefined;
  }
}

function recordOf(job: HostJob, { jobs, host }: StepContext): JobRecord {
  return jobs.get(job.id) ?? newRecord(job, host.hostId);
}

async function settleJob(step: StepOf<'settle'>, { jobs, monitors }: StepContext): Promise<void> {
  const monitor = monitors.get(step.jobId);
  monitors.delete(step.jobId);
  const { stopCause, ...rest } = step.record;
  const leaving = monitor?.stop({ keepAnnounced: false });
  const beginsAnew = stopCause?.type === 'disk_full';
  jobs.set({ ...rest, status: step.status, failures: step.failures, isWatched: false, beginsAnew });
  await leaving;
}

async function startJob(step: StepOf<'start'>, context: StepContext, signal: AbortSignal): Promise<void> {
  const { job } = step;
  const { jobs, containers } = context;
  const record = () => recordOf(job, context);
  jobs.set(record());
  try {
    const container = await runContainer(step, context, signal);
    containers.put(container);
    // One that ended at once is settled by the next plan; there is nothing to watch.
    if (container.state === 'running') watch(job, container, context, { record: record(), isAdopted: false });
  } catch (error) {
    // The assignment changed its mind, or the agent stops: whoever broke it off looks what the engine makes of it.
    if (signal.aborted) return;
    const isTransient = hasCode(error, 'unavailable', 'timeout', 'cancelled');
    const failure = {
      message: messageOf(error),
      isTransient,
      isEngineHung: context.isEngineHung(),
      endedAt: step.container?.endedAtMs,
    };
    context.log.warn({ jobId: job.id }, `could not start the job: ${failure.message}`);
    jobs.set({ ...record(), ...outcomeOfFailedStart(job, record(), failure, systemClock.now()), isWatched: false });
    try {
      await containers.refresh(signal);
    } catch (error) {
      // The table looks again by itself; why the job did not start has been told already.
      context.log.debug({ err: error, jobId: job.id }, 'the containers could not be looked at after a failed start');
    }
  }
}

/** Its image is brought before it has a slot: one that takes its time keeps no other job from being started. */
async function runContainer(step: StepOf<'start'>, context: StepContext, signal: AbortSignal): Promise<Container> {
  const { job } = step;
  const { engine, jobs, startSlots, host } = context;
  const isAgain = recordOf(job, context).status.startedAt !== undefined;
  const whyAnew = step.container === undefined ? undefined : reasonForAnother(job, step.container, host);
  const former = whyAnew === undefined ? undefined : step.container;
  const present = whyAnew === undefined ? step.container : undefined;
  let hasBegun = false;
  const begin = (): void => {
    if (!hasBegun) jobs.set(starting(recordOf(job, context), isAgain));
    hasBegun = true;
  };
  const start = (idOf: () => Promise<string>): Promise<Container> =>
    startSlots.run(
      async () => {
        begin();
        // Its container finds it mounted; one that is started again may have been away for longer than it was good.
        if (job.template.identity !== undefined) await host.identities?.issue(job.id, job.template.identity);
        const id = await idOf();
        await context.beforeStart(job, id);
        return startContainer(id, { container: present }, context, signal);
      },
      { signal },
    );
  if (present !== undefined) return start(async () => present.id);
  const image = (): Promise<string> => engine.ensureImage(job.template.image, { group: groupOf(job), signal });
  const startFrom = (imageRef: string): Promise<Container> =>
    start(async () => {
      if (former !== undefined) await removeFormer(former, `its own ${whyAnew}`, context, signal);
      return createContainer(job, imageRef, context, signal);
    });
  begin();
  const imageRef = await image();
  try {
    return await startFrom(imageRef);
  } catch (error) {
    // An image that was there may have been removed behind the engine's back; it is looked for anew.
    if (!hasCode(error, 'not_found')) throw error;
    return startFrom(await image());
  }
}

/** Of what is so no more: whoever started it again would go on with that. */
function reasonForAnother(job: HostJob, container: Container, host: HostSettings): string | undefined {
  if (isOfFormerPlace(container, host)) return 'is of before the host, or etcd, moved';
  if (saysMoreThanJob(container, job, host))
    return 'is of an earlier version, and has labels of its image for the job’s';
  return undefined;
}

async function removeFormer(
  container: Container,
  why: string,
  { engine, containers, log }: StepContext,
  signal: AbortSignal,
): Promise<void> {
  log.info({ container: container.name }, `a job is started in a new container: ${why}`);
  await engine.remove(container.id, { signal });
  containers.delete(container.id);
}

/** What somebody began to remove, in vain, the engine keeps and never starts again: the next attempt makes another. */
async function startContainer(
  id: string,
  step: { container: Container | undefined },
  { engine }: StepContext,
  signal: AbortSignal,
): Promise<Container> {
  try {
    return await engine.start(id, { signal });
  } catch (error) {
    if (hasCode(error, 'conflict') && step.container !== undefined) await engine.remove(id, { signal });
    throw error;
  }
}

function starting(record: JobRecord, isAgain: boolean): JobRecord {
  const { stopCause: _, beginsAnew: __, ...rest } = record;
  const { lastError, lastExitCode, ...status } = withoutRun(record.status);
  const restarts = status.restarts + (isAgain ? 1 : 0);
  const { error, exitCode } = isAgain ? record.status : { error: lastError, exitCode: lastExitCode };
  const code = exitCode === undefined ? {} : { lastExitCode: exitCode };
  const why = error === undefined ? {} : { lastError: error, ...code };
  return { ...rest, status: { ...status, ...why, state: 'starting', restarts }, isWatched: false };
}

/**
 * A job that ran here before has its data, or does not run: begun with an empty volume it would seem well, and what it wrote would
 * be lost in turn once a disk that was not mounted is. Throws `conflict`; with what one can do without it begins, and says so.
 */
async function checkVolumes(job: HostJob, context: StepContext, signal: AbortSignal): Promise<void> {
  const { engine, host, jobs, log } = context;
  const own = job.template.volumes.filter(({ isShared = false }) => !isShared);
  if (own.length === 0 || recordOf(job, context).status.restarts === 0) return;
  const there = await Promise.all(own.map(({ name }) => engine.hasVolume(volumeName(host.cluster, name), { signal })));
  const lost = own.filter((_, at) => there[at] !== true);
  if (lost.length === 0) return;
  const gone = `the engine has its volume ${lost.map(({ name }) => name).join(', ')} no more`;
  if (!lost.every(({ isReplaceable = false }) => isReplaceable)) {
    throw new FlynnError(
      'conflict',
      `${gone}: where a disk of the engine is not mounted, mount it and start the engine again, and the job goes on; where it is gone for good, scale the process to 0 and back: it begins with an empty one, as after a deployment`,
    );
  }
  const lastError = `${gone}: it began again with an empty one`;
  log.error({ jobId: job.id }, lastError);
  jobs.update(job.id, (was) => {
    const { lastExitCode: _, ...status } = was.status;
    return { ...was, status: { ...status, lastError } };
  });
}

async function createContainer(
  job: HostJob,
  imageRef: string,
  context: StepContext,
  signal: AbortSignal,
): Promise<string> {
  const { engine, host } = context;
  await checkVolumes(job, context, signal);
  const spec = containerSpecOf(job, imageRef, host);
  for (const { name, labels = {} } of spec.volumes) await engine.ensureVolume(name, { labels, signal });
  try {
    return await engine.create(spec, { signal });
  } catch (error) {
    if (!hasCode(error, 'conflict')) throw error;
    // An earlier attempt got through after all.
    return (await engine.inspect(containerName(host.cluster, job.id), { signal })).id;
  }
}

/** From here on the job is known to run: its health decides about the rest. */
function watch(
  job: HostJob,
  container: Container,
  context: StepContext,
  { record, isAdopted }: { record: JobRecord; isAdopted: boolean },
): void {
  const { jobs, monitors, host } = context;
  const address = job.template.hostNetwork ? host.externalAddress : container.address;
  if (address === undefined) {
    throw new FlynnError('internal', `the container of ${job.id} runs without an address on ${host.networkName}`);
  }
  const { id, pid } = container;
  const listens = (port: number) => pid === undefined || listensItself({ id, pid }, port);
  const known = job.template.ports.map(({ port }) => port);
  const elsewhere = (port: number) => (pid === undefined ? undefined : listensElsewhere(pid, port, known));
  const startedAt = container.startedAtMs ?? systemClock.now();
  // An adopted job that was running is taken at its word until its check says otherwise.
  const state = record.status.state === 'running' ? 'running' : 'starting';
  const { unhealthySince, goesLast, ...status } = record.status;
  // One that somebody restarted behind the agent's back is another run, and may take its time to come up.
  const isSameRun = isAdopted && status.startedAt === startedAt;
  const seen = {
    ...(isSameRun && unhealthySince !== undefined ? { unhealthySince } : {}),
    ...(isSameRun && goesLast !== undefined ? { goesLast } : {}),
  };
  jobs.set({ ...record, status: { ...status, ...seen, state, address, startedAt }, isWatched: true });
  const isCurrent = () => jobs.get(job.id)?.isWatched === true && jobs.get(job.id)?.stopCause === undefined;
  const monitor = new JobMonitor({
    job,
    address,
    hostId: host.hostId,
    identity: ownLabel(container.labels, label.identity),
    mayBeAnnounced: isAdopted,
    wasUp: isSameRun && (status.state === 'running' || unhealthySince !== undefined),
    patience: startPatience(record.lateStarts),
    listensItself: job.template.hostNetwork ? listens : undefined,
    // Of the host's network it would tell of all that is there.
    listensElsewhere: job.template.hostNetwork ? undefined : elsewhere,
    announcer: context.announcer,
    log: context.log,
    events: {
      onUp() {
        if (!isCurrent()) return;
        jobs.update(job.id, (was) => ({ ...was, status: healthy(was.status), lateStarts: 0 }));
      },
      onDown(error, failingMs) {
        if (!isCurrent()) return;
        const since = Math.round(systemClock.now() - failingMs);
        jobs.update(job.id, ({ status: { unhealthySince = since, ...was }, ...rest }) => ({
          ...rest,
          status: { ...was, state: 'starting', error, unhealthySince },
        }));
      },
      onNeverUp(message) {
        if (!isCurrent()) return;
        const stopCause = { type: 'unhealthy', message, wellMs: 0 } as const;
        context.note(container, `stopped: ${message}`);
        jobs.update(job.id, (was) => ({ ...was, stopCause, lateStarts: was.lateStarts + 1 }));
      },
      onAstray(message) {
        if (isCurrent()) context.note(container, message);
      },
      onHung(message, wellMs) {
        if (!isCurrent()) return;
        context.note(container, message);
        jobs.update(job.id, (was) => ({ ...was, stopCause: { type: 'unhealthy', message, wellMs } }));
      },
      onGoesLast(isSo) {
        if (!isCurrent() || (jobs.get(job.id)?.status.goesLast ?? false) === isSo) return;
        jobs.update(job.id, (was) => ({ ...was, status: goingLast(was.status, isSo) }));
      },
    },
  });
  monitors.set(job.id, monitor);
}

function goingLast(status: JobStatus, isSo: boolean): JobStatus {
  const { goesLast: _, ...rest } = status;
  return isSo ? { ...rest, goesLast: true } : rest;
}

function healthy(status: JobStatus): JobStatus {
  const { error: _, unhealthySince: __, ...rest } = status;
  return { ...rest, state: 'running' };
}
