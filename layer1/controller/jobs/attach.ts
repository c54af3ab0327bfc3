/** Brings a client and a job's host together: bytes both ways, unread, until either side is gone. */
import type { Duplex } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { onJobsChange, placedJobs, reasonsOf, seenStatuses } from '../mirrors/cell-view.ts';
import type { CellView } from '../mirrors/cell-view.ts';
import { appIdOf } from '../processes/compile.ts';
import { hasEnded } from './views.ts';

const placementDeadlineMs = 60_000;

export type Placement = { hostId: string; jobId: string };

/** The host a job of the app is on, by job id or workload id: a workload's newest job. */
export function placementOf(cell: CellView, appId: string, id: string): Placement | undefined {
  const statuses = seenStatuses(
    cell,
    (status) => appIdOf(status.workloadId) === appId && (status.id === id || status.workloadId === id),
  ).sort((a, b) => Number(hasEnded(a)) - Number(hasEnded(b)) || b.createdAt - a.createdAt);
  const [status] = statuses;
  if (status !== undefined) return { hostId: status.hostId, jobId: status.id };
  const placed = placedJobs(cell).find(
    (job) => appIdOf(job.workloadId) === appId && job.desired === 'run' && (job.id === id || job.workloadId === id),
  );
  return placed === undefined ? undefined : { hostId: placed.hostId, jobId: placed.id };
}

/**
 * Waits for the job's placement, up to 60 s. Throws `not_found` if no such job was asked for, `timeout` with the reason why it
 * waits.
 */
export async function awaitPlacement(
  cell: CellView,
  options: { appId: string; id: string; signal: AbortSignal; deadlineMs?: number },
): Promise<Placement> {
  const { appId, id, deadlineMs = placementDeadlineMs } = options;
  const isWanted = () => cell.workloads.snapshot.entries.has(id) && appIdOf(id) === appId;
  const limited = withDeadline(deadlineMs, options.signal);
  const found = Promise.withResolvers<Placement>();
  const look = () => {
    const placement = placementOf(cell, appId, id);
    if (placement !== undefined) found.resolve(placement);
    else if (!isWanted()) found.reject(new FlynnError('not_found', `there is no job ${id}; list them with: flynn ps`));
  };
  const stop = onJobsChange(cell, look);
  const onAbort = () =>
    found.reject(
      options.signal.aborted
        ? new FlynnError('cancelled', 'the client went away before the job was placed')
        : new FlynnError('timeout', `job ${id} has no place after ${deadlineMs / 1000} s: ${reasonOf(cell, id)}`),
    );
  limited.addEventListener('abort', onAbort, { once: true });
  look();
  if (limited.aborted) onAbort();
  try {
    return await found.promise;
  } finally {
    stop();
    limited.removeEventListener('abort', onAbort);
  }
}

function reasonOf(cell: CellView, workloadId: string): string {
  return reasonsOf(cell).get(workloadId) ?? 'no scheduler has looked at it';
}

/** Once one side has ended or broken, both are torn down; what was in flight is delivered first. */
export function joinSockets(client: Duplex, host: Duplex): void {
  joinOneWay(client, host);
  joinOneWay(host, client);
}

const flushMs = 5_000;

/** The other end is told of by nothing but that `to` ends. */
export function joinOneWay(from: Duplex, to: Duplex): void {
  from.on('error', () => from.destroy());
  from.pipe(to);
  from.once('close', () => {
    to.end(() => to.destroy());
    // A reader that takes nothing any more must not keep the pair alive.
    setTimeout(() => to.destroy(), flushMs).unref();
  });
}
