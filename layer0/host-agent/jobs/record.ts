/** What the agent knows about a job beyond its containers. */
import { metaOfLabels, label } from '../engine/labels.ts';
import type { Container } from '../engine/engine.ts';
import type { JobStatus } from '@flynn/scheduler/cell';
import type { DesiredJob } from './assigned.ts';

/** Why a container that would go on running has to end. */
export type StopCause =
  /** The assignment says so, or there is none. */
  | { type: 'unwanted' }
  /** Somebody asked this agent. */
  | { type: 'requested' }
  /** It never came up, or was up for `wellMs` and then failed for longer than it may. */
  | { type: 'unhealthy'; message: string; wellMs: number }
  | { type: 'expired' }
  /** It wrote more than it may. */
  | { type: 'disk_full'; message: string }
  /** The host could not renew its lease: another may run it now. */
  | { type: 'fenced' };

export type JobRecord = Readonly<{
  status: JobStatus;
  /** Failures in a row, for the back-off. */
  failures: number;
  /** Starts in a row from which it did not come up in time. */
  lateStarts: number;
  stopCause?: StopCause;
  /** It starts again in another container: what it wrote in this one is too much. */
  beginsAnew?: boolean;
  /** This agent watches its health and follows its log. */
  isWatched: boolean;
}>;

/** `container`: what already runs as the job. */
export function newRecord(job: DesiredJob, hostId: string, container?: Container): JobRecord {
  return {
    status: {
      id: job.id,
      hostId,
      workloadId: job.workloadId,
      version: job.version,
      meta: job.template?.meta ?? metaOfLabels(container?.labels ?? {}),
      state: 'pending',
      isFinal: false,
      restarts: 0,
      createdAt: job.createdAt,
    },
    failures: 0,
    lateStarts: 0,
    isWatched: false,
  };
}

/** After a restart of the agent: how often it failed is not kept, how often it was restarted bounds it. */
export function recordOfStatus(status: JobStatus): JobRecord {
  const isFailing = status.state === 'crashed' || status.state === 'failed';
  return { status, failures: isFailing ? status.restarts + 1 : 0, lateStarts: 0, isWatched: false };
}

/** For a container without assignment and status: it is told about as long as it is there. */
export function recordOfContainer(container: Container, hostId: string): JobRecord {
  const { labels } = container;
  return {
    status: {
      id: labels[label.job] ?? container.name,
      hostId,
      workloadId: labels[label.workload] ?? '',
      version: labels[label.version] ?? '',
      meta: metaOfLabels(labels),
      state: container.state === 'running' ? 'running' : 'done',
      isFinal: false,
      restarts: 0,
      createdAt: container.createdAtMs,
    },
    failures: 0,
    lateStarts: 0,
    isWatched: false,
  };
}

/** The status without what an earlier run left in it. */
export function withoutRun(status: JobStatus): JobStatus {
  const { exitCode, error, nextStartAt, endedAt, startedAt, unhealthySince, goesLast, address, ...rest } = status;
  void [exitCode, error, nextStartAt, endedAt, startedAt, unhealthySince, goesLast, address];
  return rest;
}
