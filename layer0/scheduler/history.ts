/** Was a state of the cell ever wrong? Replays the store's history, every revision of it. */
import { FlynnError, messageOf } from '@flynn/kit/errors';
import type { Change, Entry, Revision, Store } from '@flynn/store/store';
import { assignmentSchema, cellKeys, cellPrefix, jobStatusSchema } from './cell.ts';
import { evaluationSchema } from './evaluation.ts';
import { CellColumns } from './columns/cell-columns.ts';
import { parseCellKey } from './columns/entries.ts';
import { findViolations, hostViolations, workloadViolations } from './invariants.ts';

export type Violation = Readonly<{ revision: Revision; what: string }>;

/**
 * The state at `from`, then every change after it up to `to` (default: the store's present), each revision checked for what
 * it touched. Ends with CompactedError when history does not reach back that far. One report per new violation.
 */
export async function checkHistory(
  store: Store,
  options: { from: Revision; to?: Revision; signal: AbortSignal },
): Promise<{ violations: Violation[]; revisions: number }> {
  const { from, signal } = options;
  const to = options.to ?? (await store.list(cellKeys.hosts, { signal })).revision;
  const violations: Violation[] = [];
  const checker = new RevisionChecker();
  const note = (revision: Revision, what: readonly string[]) => {
    for (const one of what) violations.push({ revision, what: one });
  };
  const { entries } = await store.list(cellPrefix, { revision: from, signal });
  note(from, checker.start(entries));

  let revisions = 0;
  // Of the whole store: whatever the last revision was about, it comes.
  for await (const batch of store.watch('', { after: from, signal })) {
    for (const [revision, changes] of byRevision(batch.changes)) {
      if (revision > to) break;
      revisions += 1;
      note(revision, checker.fold(changes));
    }
    if (batch.revision >= to) return { violations, revisions };
  }
  throw new FlynnError('cancelled', `checking the history was cut short before revision ${to}`);
}

export function byRevision(changes: readonly Change[]): Map<Revision, Change[]> {
  return Map.groupBy(changes, (change) => (change.type === 'put' ? change.entry.modRevision : change.modRevision));
}

/** Takes one revision after the other and says what is wrong with it. */
export class RevisionChecker {
  readonly #faults: string[] = [];
  readonly cell = new CellColumns({
    onFault: (key, error) => this.#faults.push(`${key} does not decode: ${messageOf(error)}`),
  });
  readonly #ended = new Map<string, string>();

  /** The state everything begins with. */
  start(entries: readonly Entry[]): string[] {
    for (const entry of entries) this.cell.fold({ type: 'put', entry });
    return [...this.#faults.splice(0), ...findViolations(this.cell)];
  }

  /** All changes of the next revision. */
  fold(changes: readonly Change[]): string[] {
    const { cell } = this;
    const hosts = new Set<string>();
    const workloads = new Set<string>();
    const violations: string[] = [];
    for (const change of changes) {
      const key = parseCellKey(change.type === 'put' ? change.entry.key : change.key);
      const told = cell.fold(change);
      if (key?.kind === 'assignments' || key?.kind === 'claims' || key?.kind === 'hosts') hosts.add(key.id);
      if (told?.kind === 'evaluation') {
        const workloadId = told.after?.workloadId ?? told.before?.workloadId;
        if (workloadId !== undefined) workloads.add(workloadId);
      }
      if (change.type === 'put') violations.push(...entryViolations(change.entry, this.#ended));
    }
    for (const hostId of hosts) for (const { workloadId } of cell.jobsOn(hostId)) workloads.add(workloadId);
    return [
      ...this.#faults.splice(0),
      ...violations,
      ...[...hosts].flatMap((hostId) => hostViolations(cell, hostId)),
      ...[...workloads].flatMap((workloadId) => workloadViolations(cell, workloadId)),
    ];
  }
}

/** What one entry alone may not say. */
function entryViolations(entry: { key: string; value: string }, ended: Map<string, string>): string[] {
  const key = parseCellKey(entry.key);
  if (key?.kind === 'status') {
    const status = jobStatusSchema.safeParse(JSON.parse(entry.value)).data;
    return status === undefined || (status.hostId === key.id && status.id === key.rest)
      ? []
      : [`the status ${entry.key} is about ${status.id} on ${status.hostId}`];
  }
  if (key?.kind === 'assignments') {
    const assignment = assignmentSchema.safeParse(JSON.parse(entry.value)).data;
    if (assignment === undefined) return [];
    const strangers = assignment.groups.flatMap(({ jobs }) => jobs).filter(({ id }) => !id.startsWith(`${key.id}-`));
    const misnamed = assignment.planId === key.rest ? [] : [`${entry.key} says it is of plan ${assignment.planId}`];
    return [...misnamed, ...strangers.map(({ id }) => `job ${id} is assigned to ${key.id}`)];
  }
  if (key?.kind !== 'evaluations') return [];
  const evaluation = evaluationSchema.safeParse(JSON.parse(entry.value)).data;
  if (evaluation === undefined) return [];
  const { id, state, reason } = evaluation;
  const before = ended.get(id);
  if (state === 'complete' || state === 'failed' || state === 'cancelled') ended.set(id, state);
  const again = before !== undefined && before !== state ? [`evaluation ${id} was ${before} and became ${state}`] : [];
  const mute = (state === 'failed' || state === 'blocked') && reason === undefined;
  return mute ? [...again, `evaluation ${id} is ${state} and does not say why`] : again;
}
