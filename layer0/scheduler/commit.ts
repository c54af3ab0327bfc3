/** Plans as one transaction that commits only if nothing they were made on has changed. */
import type { z } from 'zod';
import type { Compare, Operation, Revision, Transaction, TransactionResult } from '@flynn/store/store';
import { cellKeys, claimSchema, lastPlanSchema } from './cell.ts';
import type { AssignedGroup, AssignedJob, Assignment, Claim, LastPlan } from './cell.ts';
import type { Evaluation } from './evaluation.ts';
import type { CellColumns } from './columns/cell-columns.ts';
import { evaluationWrite } from './evaluations.ts';
import { homesAfter } from './homes.ts';
import { claimOf, claimWith } from './ledger.ts';
import type { KnownClaim, Ledger } from './ledger.ts';
import type { HostChange, Outcome, Plan } from './plan.ts';

/** Some hosts of a plan; with the last of them its outcomes. */
export type Part = Readonly<{
  plan: Plan;
  hosts: ReadonlyMap<string, HostChange>;
  /** Those of its earlier parts, which are committed. The columns may not tell of them yet. */
  done: ReadonlyMap<string, HostChange>;
  hasOutcomes: boolean;
  /** Of `plans/<workload>`, for each workload the plan is for. */
  planRevisions: ReadonlyMap<string, Revision>;
  /** Of the evaluations and workloads its outcomes are about, as they were when it was made or as it left them, by key. */
  revisions: ReadonlyMap<string, Revision>;
}>;

/** What a compare is about: whose it is to be made again when it does not hold. */
export type Subject =
  | Readonly<{ kind: 'host'; hostId: string }>
  /** Somebody else planned for the workload, or changed it, or ended the evaluation. */
  | Readonly<{ kind: 'plan'; plan: Plan }>
  /** This scheduler's own lease is over. */
  | Readonly<{ kind: 'scheduler' }>;

export type Batch = Readonly<{
  id: string;
  parts: readonly Part[];
  transaction: Transaction;
  /** Of each compare, in their order. */
  subjects: readonly Subject[];
  /** What is done to each host, and what its claim is afterwards. */
  changes: ReadonlyMap<string, readonly HostChange[]>;
  claims: ReadonlyMap<string, Claim | undefined>;
}>;

/** What a scheduler holds while it may commit: gone means it was replaced. */
export type Fence = Readonly<{ key: string; createRevision: Revision }>;

/** A value stays well below the store's limit of 1 MiB. */
const maxJobsPerKey = 4_000;

/** Roughly, of a claim, and in an assignment of a group and of a job. */
const claimBytes = 300;
const groupBytes = 300;
const jobBytes = 100;

/**
 * How many compares or writes it takes at most, and how many bytes, roughly. `others`: what the same transaction does to the
 * host besides, and which assignments that writes anew; undefined where there is nothing else.
 */
export function changeSize(
  hostId: string,
  { add, stop, release }: HostChange,
  others: Readonly<{ rewritten: ReadonlySet<string> | undefined }> | undefined,
  columns: CellColumns,
): { operations: number; bytes: number } {
  const isFirst = others === undefined;
  const added = add.reduce((sum, { jobs }) => sum + jobs.length, 0);
  let keys = Math.floor(added / maxJobsPerKey) + (isFirst && added > 0 ? 1 : 0);
  let bytes = claimBytes + groupBytes * add.length + jobBytes * added;
  for (const [planId, released] of rewrittenBy({ stop, release })) {
    if (others?.rewritten?.has(planId) === true) continue;
    keys += 1;
    const { groups, jobs } = columns.assignmentSize(hostId, planId);
    // All of it that stays is written once more.
    if (jobs > released) bytes += groupBytes * groups + jobBytes * (jobs - released);
  }
  // Claim and host are compared, the claim is written: the store counts compares and writes apart.
  return { operations: isFirst ? Math.max(2, 1 + keys) : keys, bytes };
}

const none: ReadonlyMap<string, number> = new Map();

/** Assignments, by their plans, that it changes jobs of, and how many of each it lets go. */
export function rewrittenBy({ stop, release }: Pick<HostChange, 'stop' | 'release'>): ReadonlyMap<string, number> {
  if (stop.length + release.length === 0) return none;
  const released = new Map<string, number>();
  for (const { planId } of stop) released.set(planId, 0);
  for (const { planId } of release) released.set(planId, 1 + (released.get(planId) ?? 0));
  return released;
}

export function outcomesSize({ plan, hasOutcomes }: Pick<Part, 'plan' | 'hasOutcomes'>): {
  operations: number;
  bytes: number;
} {
  if (!hasOutcomes) return { operations: 2, bytes: 100 };
  const sizeOf = ({ created, superseded, remainingOfOthers: others }: Outcome) =>
    4 + created.length + superseded.length + (others?.size ?? 0);
  const operations = plan.outcomes.reduce((sum, one) => sum + sizeOf(one), 0);
  return { operations, bytes: operations * 400 };
}

export function batchOf(
  id: string,
  parts: readonly Part[],
  { columns, ledger, fence }: { columns: CellColumns; ledger: Ledger; fence?: Fence },
): Batch {
  const compare: Compare[] = [];
  const subjects: Subject[] = [];
  const then: Operation[] = [];
  const expect = (one: Compare, subject: Subject) => {
    compare.push(one);
    subjects.push(subject);
  };
  if (fence !== undefined) expect(fence, { kind: 'scheduler' });

  const changes = new Map<string, HostChange[]>();
  for (const { hosts } of parts) {
    for (const [hostId, change] of hosts) {
      const known = changes.get(hostId);
      if (known === undefined) changes.set(hostId, [change]);
      else known.push(change);
    }
  }
  const claims = new Map<string, Claim | undefined>();
  for (const [hostId, ofHost] of changes) {
    const host = columns.hosts.get(hostId);
    const known = ledger.claimOf(hostId);
    expect({ key: cellKeys.claim(hostId), modRevision: known.modRevision }, { kind: 'host', hostId });
    expect({ key: cellKeys.host(hostId), createRevision: host?.createRevision ?? 0 }, { kind: 'host', hostId });
    const claim = claimAfter(hostId, ofHost, id, known, columns);
    then.push(...assignmentWrites(hostId, ofHost, id, columns));
    // What is left of a host that is gone goes with its last job.
    const isOver = host === undefined && (claim === undefined || claim.jobs === 0);
    claims.set(hostId, isOver ? undefined : claim);
    const key = cellKeys.claim(hostId);
    then.push(isOver ? { delete: key } : { put: key, value: JSON.stringify(claim) });
  }
  for (const part of parts) partWrites(part, id, columns, expect, then);
  return {
    id,
    parts,
    subjects,
    changes,
    claims,
    transaction: { compare, then, else: compare.map(({ key }): Operation => ({ get: key })) },
  };
}

/**
 * One that was less than its jobs come to would go below nothing as they end, and no such claim can be read: it is added up anew.
 * What is released is in the columns, and these are of the very claim that is compared (see `Gathering`).
 */
function claimAfter(
  hostId: string,
  changes: readonly HostChange[],
  batchId: string,
  known: KnownClaim,
  columns: CellColumns,
): Claim | undefined {
  const after = (before: Claim | undefined) =>
    changes.reduce<Claim | undefined>((sum, change) => claimWith(sum, change, batchId), before);
  const claim = after(known.claim);
  if (claim === undefined || Math.min(claim.memoryBytes, claim.cpuMillis, claim.jobs) >= 0) return claim;
  const groups = columns.assignmentIds(hostId).flatMap((planId) => columns.assignmentGroups(hostId, planId) ?? []);
  return after(claimOf(groups, batchId));
}

function assignmentWrites(
  hostId: string,
  changes: readonly HostChange[],
  batchId: string,
  columns: CellColumns,
): Operation[] {
  const writes: Operation[] = [];
  for (const [at, groups] of chunksOf(changes.flatMap(({ add }) => add)).entries()) {
    const planId = at === 0 ? batchId : `${batchId}-${at.toString(36)}`;
    const assignment: Assignment = { planId, groups };
    writes.push({ put: cellKeys.assignment(hostId, planId), value: JSON.stringify(assignment) });
  }
  if (!changes.some(({ stop, release }) => stop.length + release.length > 0)) return writes;
  const released = new Set(changes.flatMap(({ release }) => release.map(({ id }) => id)));
  const stopped = new Set(changes.flatMap(({ stop }) => stop.map(({ id }) => id)));
  const touched = new Set(changes.flatMap((change) => [...rewrittenBy(change).keys()]));
  for (const planId of touched) {
    const groups = columns.assignmentGroups(hostId, planId);
    if (groups === undefined) continue;
    const left = groups.flatMap((group): AssignedGroup[] => {
      const jobs = group.jobs
        .filter(({ id }) => !released.has(id))
        .map((job) => (stopped.has(job.id) ? asStopped(job) : job));
      return jobs.length === 0 ? [] : [{ ...group, jobs }];
    });
    const key = cellKeys.assignment(hostId, planId);
    const assignment: Assignment = { planId, groups: left };
    writes.push(left.length === 0 ? { delete: key } : { put: key, value: JSON.stringify(assignment) });
  }
  return writes;
}

function asStopped(job: AssignedJob): AssignedJob {
  return { ...job, desired: 'stop' };
}

function chunksOf(groups: readonly AssignedGroup[]): AssignedGroup[][] {
  const chunks: AssignedGroup[][] = [];
  let room = 0;
  for (const group of groups) {
    for (let from = 0; from < group.jobs.length;) {
      if (room === 0) {
        chunks.push([]);
        room = maxJobsPerKey;
      }
      const isWhole = from === 0 && group.jobs.length <= room;
      const part = isWhole ? group : { ...group, jobs: group.jobs.slice(from, from + room) };
      chunks.at(-1)?.push(part);
      from += part.jobs.length;
      room -= part.jobs.length;
    }
  }
  return chunks;
}

function partWrites(
  part: Part,
  batchId: string,
  columns: CellColumns,
  expect: (compare: Compare, subject: Subject) => void,
  then: Operation[],
): void {
  const { plan, hosts, done, hasOutcomes, planRevisions, revisions } = part;
  const subject: Subject = { kind: 'plan', plan };
  const isAdding = [...hosts.values()].some(({ add }) => add.length > 0);
  const creates = hasOutcomes && plan.outcomes.some(({ created }) => created.length > 0);
  for (const [workloadId, modRevision] of planRevisions) {
    const key = cellKeys.lastPlan(workloadId);
    expect({ key, modRevision }, subject);
    if (hosts.size > 0 || creates) {
      const known = homesAfter(done, workloadId, columns.homesOf(workloadId)) ?? {};
      const homes = homesAfter(hosts, workloadId, known);
      const last: LastPlan = { planId: batchId, ...(homes === undefined ? {} : { homes }) };
      then.push({ put: key, value: JSON.stringify(last) });
    }
    // What is taken from one that was removed is: it may be there again.
    const isRemoved = hosts.size > 0 && (revisions.get(cellKeys.workload(workloadId)) ?? 0) === 0;
    if (isAdding || isRemoved) expectWorkload(workloadId, revisions, (compare) => expect(compare, subject));
  }
  const write = { part, isAdding, columns, then };
  for (const outcome of plan.outcomes) {
    for (const [workloadId, remaining] of countsOf(outcome)) {
      countWrites(workloadId, remaining, write, (compare) => expect(compare, subject));
    }
    if (hasOutcomes) outcomeWrites(outcome, write, (compare) => expect(compare, subject));
  }
}

type Write = Readonly<{ part: Part; isAdding: boolean; columns: CellColumns; then: Operation[] }>;

/** What the counts of workloads become of which it lets runs go, once all of the plan is carried out. */
export function countsOf({ evaluation: { workloadId }, remaining, remainingOfOthers }: Outcome): Map<string, number> {
  const counts = new Map(remainingOfOthers);
  return remaining === undefined ? counts : counts.set(workloadId, remaining);
}

/**
 * Runs are counted down in the very transaction that lets them go: where that is not the plan's last, none begins once more. The
 * workload is written even where its count stays: who lets go of others at the same time counts on what there was.
 */
function countWrites(
  workloadId: string,
  remaining: number,
  { part, isAdding, columns, then }: Write,
  expect: (compare: Compare) => void,
): void {
  const workload = columns.workload(workloadId)?.value;
  if (workload === undefined) return;
  let [released, count] = [0, remaining];
  for (const [hostId, { release }] of part.plan.hosts) {
    const jobs = release.filter((job) => job.workloadId === workloadId).length;
    if (part.hosts.has(hostId)) released += jobs;
    else if (!part.done.has(hostId)) count += jobs;
  }
  count = Math.min(count, workload.count);
  if (released === 0 && count === workload.count) return;
  if (!isAdding || !part.planRevisions.has(workloadId)) expectWorkload(workloadId, part.revisions, expect);
  then.push({ put: cellKeys.workload(workloadId), value: JSON.stringify({ ...workload, count }) });
}

function outcomeWrites(
  { evaluation, end, created, superseded, isKnown = false }: Outcome,
  { part, columns, then }: Write,
  expect: (compare: Compare) => void,
): void {
  const { plan, revisions } = part;
  const key = cellKeys.evaluation(evaluation.id);
  const modRevision = revisions.get(key) ?? 0;
  if (modRevision > 0 || (!isKnown && isWorthKeeping(end, plan.hosts.size > 0))) {
    expect({ key, modRevision });
    const known = modRevision > 0 ? columns.evaluations.get(evaluation.id)?.value : undefined;
    if (known?.state !== end.state || known.reason !== end.reason) then.push(evaluationWrite(end));
  }
  for (const other of superseded) {
    const olderKey = cellKeys.evaluation(other.id);
    expect({ key: olderKey, modRevision: revisions.get(olderKey) ?? 0 });
    then.push(evaluationWrite(other));
  }
  then.push(...created.map(evaluationWrite));
}

/** New jobs are of the version it has: the template of one before may be gone by now. */
function expectWorkload(
  workloadId: string,
  revisions: ReadonlyMap<string, Revision>,
  expect: (compare: Compare) => void,
): void {
  const key = cellKeys.workload(workloadId);
  expect({ key, modRevision: revisions.get(key) ?? 0 });
}

/** One that only this scheduler knew of, and that found nothing to do, leaves no trace. */
function isWorthKeeping(end: Evaluation, hasChanges: boolean): boolean {
  return hasChanges || end.state !== 'complete' || end.blockedId !== undefined;
}

export type Verdict = Readonly<{
  refusedHosts: ReadonlySet<string>;
  refusedPlans: ReadonlySet<Plan>;
  isFenced: boolean;
  /** Plans made again on a cell that has reached this see why; 0 when only waiting tells. */
  revision: Revision;
  /** What the answer says of claims. */
  claims: ReadonlyMap<string, KnownClaim>;
}>;

/**
 * What stood in the way, by the answer's reads. Undefined when it was this very batch, committed before by a try whose
 * reply was lost: its id stands in what it wrote.
 */
export function judge(batch: Batch, answer: TransactionResult): Verdict | { committedAt: Revision } {
  const refusedHosts = new Set<string>();
  const refusedPlans = new Set<Plan>();
  const claims = new Map<string, KnownClaim>();
  let isFenced = false;
  let revision: Revision = 0;
  for (const [at, compare] of (batch.transaction.compare ?? []).entries()) {
    const entry = answer.reads[at]?.[0];
    const subject = batch.subjects[at];
    if (subject === undefined) continue;
    if (subject.kind === 'host' && compare.key === cellKeys.claim(subject.hostId)) {
      const claim = entry && readAs(claimSchema, entry.value);
      if (entry !== undefined && claim?.planId === batch.id) return { committedAt: entry.modRevision };
      // Of a claim that does not decode nothing is known: the host is refused until it is mended (`ClaimMender`).
      const isKnown = entry === undefined || claim !== undefined;
      const modRevision = entry?.modRevision ?? 0;
      if (isKnown) claims.set(subject.hostId, { claim, modRevision, seenAt: answer.revision });
    }
    const isPlan = subject.kind === 'plan' && compare.key.startsWith(cellKeys.plans);
    if (isPlan && entry !== undefined) {
      const last = readAs(lastPlanSchema, entry.value);
      if (last?.planId === batch.id) return { committedAt: entry.modRevision };
    }
    const isSame =
      'modRevision' in compare
        ? (entry?.modRevision ?? 0) === compare.modRevision
        : (entry?.createRevision ?? 0) === compare.createRevision;
    if (isSame) continue;
    revision = Math.max(revision, entry?.modRevision ?? 0);
    if (subject.kind === 'host') refusedHosts.add(subject.hostId);
    else if (subject.kind === 'plan') refusedPlans.add(subject.plan);
    else isFenced = true;
  }
  return { refusedHosts, refusedPlans, isFenced, revision, claims };
}

function readAs<T>(schema: z.ZodType<T>, text: string): T | undefined {
  try {
    return schema.parse(JSON.parse(text));
  } catch {
    return undefined;
  }
}
