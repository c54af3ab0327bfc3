/** What became of a build's job, when its runner is gone or says that it failed: was it lost with its host? */
import type { Deps } from '../deps.ts';
import { cellOf } from '../jobs/jobs.ts';
import { findJob, iso, jobsOfApp } from '../jobs/views.ts';
import type { Job, Loss } from '../model.ts';
import type { OperationResource } from '../resources.ts';
import { buildMarker, buildStopMarker } from './log.ts';
import { currentBuild } from './losses.ts';

type LookDeps = Pick<Deps, 'cell' | 'now'>;

/**
 * Of one whose runner is gone; undefined if it is not to be begun again: what is no build, and what names a runner, which may
 * never come back.
 */
export function lossOfSilent(deps: LookDeps, operation: OperationResource): Loss | undefined {
  const { spec, status } = operation;
  if (spec.kind !== 'build' || spec.target?.runnerId !== undefined) return undefined;
  const loss = { at: iso(deps.now()), ...(status.runnerId === undefined ? {} : { runnerId: status.runnerId }) };
  const job = jobOf(deps, operation);
  if (job?.hostId === undefined) return { ...loss, hasRun: false };
  const isThere = deps.cell.hosts.snapshot.entries.has(job.hostId) && job.state !== 'lost';
  // One that runs on, and is stopped now, was no harm to its host, nor was one that ended well. One that has ended otherwise on a
  // host that is there may have been: a machine that fell over and is up again says no more than that.
  const isHarmless = job.state === 'running' || job.exitCode === 0 || isEndedByDrain(deps, job);
  if (isThere) return { ...loss, hasRun: job.startedAt !== undefined && !isHarmless };
  return { ...loss, hostId: job.hostId, hasRun: job.startedAt !== undefined };
}

/** Of one that its runner says has failed; undefined unless that is because its host was lost, or drained to a deadline. */
export async function lossOfFailed(
  deps: LookDeps & Pick<Deps, 'store'>,
  operation: OperationResource,
  signal: AbortSignal,
): Promise<Loss | undefined> {
  const { id, spec, status } = operation;
  if (spec.kind !== 'build' || status.state !== 'running') return undefined;
  const then = [{ get: buildMarker(id) }, { get: buildStopMarker(id) }];
  const { reads, revision } = await deps.store.transact({ then }, { signal });
  const [begun, stopped] = reads.map(([entry]) => entry?.value);
  const build = JSON.stringify(currentBuild(operation));
  if (begun !== build || stopped === build) return undefined;
  const at = iso(deps.now());
  const known = jobOf(deps, operation);
  // Its host said how it ended: nearly always so.
  if (known?.endedAt !== undefined) {
    if (known.hostId === undefined || !isEndedByDrain(deps, known)) return undefined;
    return { at, hostId: known.hostId, hasRun: false, isDrained: true };
  }
  // Whoever told the runner may know more than is known here.
  const { workloads, hosts, assignments, statuses, templates } = deps.cell;
  await Promise.all(
    [workloads, hosts, assignments, statuses, templates].map((one) => one.reached(revision, { signal })),
  );
  const job = jobOf(deps, operation);
  // Placed once, and taken from a host that was lost before it said anything of it: there is no trace of it.
  if (job === undefined) return { at, hasRun: false };
  if (job.state !== 'lost') return undefined;
  return { at, ...(job.hostId === undefined ? {} : { hostId: job.hostId }), hasRun: job.startedAt !== undefined };
}

/** What is left on a host that drains is stopped at the deadline, and no other comes there: whatever ends later ended by that. */
function isEndedByDrain({ cell }: LookDeps, { hostId = '', endedAt }: Job): boolean {
  const deadlineAt = cell.settings.snapshot.entries.get(hostId)?.value.drain?.deadlineAt;
  return deadlineAt !== undefined && endedAt !== undefined && Date.parse(endedAt) >= deadlineAt;
}

function jobOf({ cell, now }: LookDeps, operation: OperationResource): Job | undefined {
  const jobs = jobsOfApp(operation.spec.appId, cellOf(cell), { all: true, nowMs: now() });
  return findJob(jobs, currentBuild(operation));
}
