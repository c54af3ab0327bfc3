/** What is to be believed of a job whose host is away? Pure. Only the host writes a status: what it wrote last stays. */
import type { JobStatus } from './cell.ts';

/** A status as it is to be read. What a host says of itself while it is there is taken as it is. */
export type SeenStatus = JobStatus & {
  /** Its host is away, and nobody has given the job up: whether it runs is not known. */
  isUncertain: boolean;
};

/** What ended had ended, whatever became of the host; what schedulers took from a host that is away is lost. */
export function seenStatus(status: JobStatus, host: { isThere: boolean; isAssigned: boolean }): SeenStatus {
  if (host.isThere || status.isFinal) return { ...status, isUncertain: false };
  const away = awayNote(status.hostId);
  if (!host.isAssigned) return { ...status, state: 'lost', isFinal: true, error: away, isUncertain: false };
  const error = status.error === undefined ? away : `${away}; before that: ${status.error}`;
  return { ...status, error, isUncertain: true };
}

export function awayNote(hostId: string): string {
  return `its host ${hostId} is away`;
}
