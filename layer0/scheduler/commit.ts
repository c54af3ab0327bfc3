/** A plan as transactions that commit only if nothing they were planned on has changed. */
import type { Compare, Operation, Revision, Store, Transaction, TransactionResult } from '@flynn/store/store';
import { cellKeys } from './cell.ts';
import type { AssignedJob, Assignment, Claim, Evaluation } from './cell.ts';
import { assignedClaim } from './feasible.ts';
import type { HostChange, Outcome, Plan } from './plan.ts';
import type { Cell } from './snapshot.ts';

type Part = { compare: Compare[]; then: Operation[] };

/** etcd refuses transactions of more than 128 compares or operations unless told otherwise. */
const maxOperations = 120;
/** One assignment's key stays well below the store's limit of 1 MiB, and a transaction below etcd's of 1.5 MiB. */
const maxJobsPerKey = 50;
const maxBytesPerKey = 512 * 1024;
const maxBytes = 1024 * 1024;

/**
 * Compared are, for each host touched, its claim (nobody else planned there) and its lease epoch (it is still the same
 * host that is there, or still gone), and the evaluations. All writes and the end of the evaluations are one transaction,
 * unless a plan touches more hosts than one may hold: then the last one ends them. None if there is nothing to write.
 */
export function transactionsOf(plan: Plan, cell: Cell): Transaction[] {
  const ends = plan.outcomes.map((outcome) => endOf(outcome, cell));
  const parts = [...plan.hosts].map(([hostId, change]) => hostPart(hostId, change, plan.id, cell));
  const compareEnds = ends.flatMap((end) => end.compare);
  const writeEnds = ends.flatMap((end) => end.then);
  const groups: Part[] = [];
  let group: Part = { compare: [...compareEnds], then: [] };
  for (const part of parts) {
    const operations = group.then.length + part.then.length + writeEnds.length;
    const isFull =
      Math.max(operations, group.compare.length + part.compare.length) > maxOperations ||
      bytesOf(group) + bytesOf(part) > maxBytes;
    if (isFull && group.then.length > 0) {
      groups.push(group);
      group = { compare: [...compareEnds], then: [] };
    }
    group.compare.push(...part.compare);
    group.then.push(...part.then);
  }
  group.then.push(...writeEnds);
  if (group.then.length > 0) groups.push(group);
  return groups.map(({ compare, then }) => ({
    compare,
    then,
    else: compare.map(({ key }): Operation => ({ get: key })),
  }));
}

function hostPart(hostId: string, change: HostChange, planId: string, cell: Cell): Part {
  const host = cell.hosts.get(hostId);
  const claim = cell.claims.get(hostId);
  const jobs: Claim['jobs'] = { ...claim?.value.jobs };
  const then: Operation[] = [];

  for (const { job } of change.release) delete jobs[job.id];
  for (const [at, added] of chunksOf(change.add).entries()) {
    const id = at === 0 ? planId : `${planId}-${at}`;
    const assignment: Assignment = { planId: id, jobs: added };
    then.push({ put: cellKeys.assignment(hostId, id), value: JSON.stringify(assignment) });
    for (const job of added) jobs[job.id] = assignedClaim(job, id);
  }

  const released = new Set(change.release.map(({ job }) => job.id));
  const stopped = new Set(change.stop.map(({ job }) => job.id));
  for (const id of new Set([...change.release, ...change.stop].map((one) => one.planId))) {
    const assignment = cell.assignments.get(`${hostId}/${id}`)?.value;
    if (assignment === undefined) continue;
    const left = assignment.jobs
      .filter((job) => !released.has(job.id))
      .map((job) => (stopped.has(job.id) ? asStopped(job) : job));
    const key = cellKeys.assignment(hostId, id);
    then.push(left.length === 0 ? { delete: key } : { put: key, value: JSON.stringify({ ...assignment, jobs: left }) });
  }

  const claimKey = cellKeys.claim(hostId);
  const isLeftBehind = host === undefined && Object.keys(jobs).length === 0;
  const next: Claim = { planId, jobs };
  then.push(isLeftBehind ? { delete: claimKey } : { put: claimKey, value: JSON.stringify(next) });
  return {
    compare: [
      { key: claimKey, modRevision: claim?.modRevision ?? 0 },
      { key: cellKeys.host(hostId), createRevision: host?.createRevision ?? 0 },
    ],
    then,
  };
}

function chunksOf(jobs: readonly AssignedJob[]): AssignedJob[][] {
  const chunks: AssignedJob[][] = [];
  let bytes = Infinity;
  for (const job of jobs) {
    const jobBytes = Buffer.byteLength(JSON.stringify(job));
    bytes += jobBytes;
    const last = chunks.at(-1);
    if (last !== undefined && last.length < maxJobsPerKey && bytes <= maxBytesPerKey) last.push(job);
    else {
      chunks.push([job]);
      bytes = jobBytes;
    }
  }
  return chunks;
}

function bytesOf({ then }: Part): number {
  return then.reduce((sum, operation) => sum + ('put' in operation ? Buffer.byteLength(operation.value) : 0), 0);
}

function asStopped(job: AssignedJob): AssignedJob {
  return { ...job, desired: 'stop' };
}

function endOf({ evaluation, state, reason, isFinished }: Outcome, cell: Cell): Part {
  const { workloadId } = evaluation;
  const key = cellKeys.evaluation(workloadId);
  const known = cell.evaluations.get(workloadId);
  const compare: Compare[] = [{ key, modRevision: known?.modRevision ?? 0 }];
  const then: Operation[] = [];
  if (state === 'complete') {
    if (known !== undefined) then.push({ delete: key });
  } else if (known?.value.state !== 'blocked' || known.value.reason !== reason) {
    const blocked: Evaluation = { ...evaluation, state: 'blocked', ...(reason === undefined ? {} : { reason }) };
    then.push({ put: key, value: JSON.stringify(blocked) });
  }
  const workload = cell.workloads.get(workloadId);
  if (isFinished === true && workload !== undefined) {
    compare.push({ key: cellKeys.workload(workloadId), modRevision: workload.modRevision });
    then.push({ put: cellKeys.workload(workloadId), value: JSON.stringify({ ...workload.value, count: 0 }) });
  }
  return { compare, then };
}

export type CommitResult =
  | { state: 'nothing' }
  | { state: 'committed'; revision: Revision }
  /** The cell has moved on: plan again on a state that has reached this revision. */
  | { state: 'refused'; revision: Revision };

/**
 * After `unavailable` or `timeout` the plan may or may not have been committed; one made on a newer cell then asks only
 * for what is still missing.
 */
export async function commitPlan(
  store: Store,
  plan: Plan,
  cell: Cell,
  options: { signal: AbortSignal },
): Promise<CommitResult> {
  let result: CommitResult = { state: 'nothing' };
  // All are made of the cell as it is now: waiting for one must not mix in what happened meanwhile.
  for (const transaction of transactionsOf(plan, cell)) {
    const answer = await store.transact(transaction, options);
    if (!answer.succeeded) return { state: 'refused', revision: newestOf(transaction, answer) };
    result = { state: 'committed', revision: answer.revision };
  }
  return result;
}

/** A revision of the cell's own at which the refusal is explained; the store's when what was compared is gone. */
function newestOf(transaction: Transaction, answer: TransactionResult): Revision {
  let newest: Revision = 0;
  for (const [at, compare] of (transaction.compare ?? []).entries()) {
    const entry = answer.reads[at]?.[0];
    const expected = 'modRevision' in compare ? compare.modRevision : compare.createRevision;
    const found = 'modRevision' in compare ? entry?.modRevision : entry?.createRevision;
    if (entry === undefined && expected !== 0) return answer.revision;
    if (entry !== undefined && found !== expected) newest = Math.max(newest, entry.modRevision);
  }
  return newest === 0 ? answer.revision : newest;
}
