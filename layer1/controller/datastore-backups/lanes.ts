/** In which lane does a datastore's next step go, and what does a restore wait for? Pure. */
import type { AppResource } from '../resources.ts';
import { makerText } from './model.ts';
import type { DatastoreStep } from './plan.ts';
import type { BackupPlan, DatastoreBackupResource, PendingRestore } from './types.ts';

export type Lane = 'restores' | 'asked' | 'scheduled';

/** How many of each are done at a time; each streams through this process. None takes a slot of another lane's. */
export const slots: Readonly<Record<Lane, number>> = { restores: 4, asked: 2, scheduled: 4 };

/** What is deployed takes its members away, the primary last: a restore would be cut. One that does not end is not waited for. */
const deployingMs = 30 * 60_000;
/** A worker that runs has begun one by then, whatever is deployed, unless others are put back. Who waits for it gives up later. */
export const begunMs = deployingMs + 5 * 60_000;
/** A worker that runs begins, or says what keeps it, before that. */
const nobodyMs = 60_000;

export function laneOf(step: Exclude<DatastoreStep, { do: 'wait' }>): Lane {
  if (step.do === 'restore') return 'restores';
  return step.record !== undefined && isAskedFor(step.record) ? 'asked' : 'scheduled';
}

/** Somebody waits for it. What nobody does is done again when it has given way. */
export function isAskedFor({ spec, status }: Pick<DatastoreBackupResource, 'spec' | 'status'>): boolean {
  return spec.by.is === 'person' || status.isAsked === true;
}

/** Whether a restore that has not begun waits until what is deployed of its datastore has ended. */
export function awaitsDeployment(
  { status }: Pick<AppResource, 'status'>,
  restore: PendingRestore,
  nowMs: number,
): boolean {
  const isWaited = nowMs < restore.wantedMs + deployingMs;
  return restore.state === 'wanted' && status.deploymentId !== undefined && isWaited;
}

/** It gets on, or will, although nothing is said of it: whoever waits for what comes after it waits on. */
export function isOnItsWay(restore: PendingRestore | undefined, nowMs: number): boolean {
  // A program that has all of it may be at it for long, and says nothing: it has a deadline of its own.
  if (restore?.state === 'running') return true;
  return restore?.state === 'wanted' && nowMs < restore.wantedMs + begunMs;
}

type Looked = Readonly<{
  app: Pick<AppResource, 'spec' | 'status'>;
  plan: BackupPlan;
  /** Of this datastore. */
  records: readonly DatastoreBackupResource[];
  /** How many others are being put back. */
  restoring: number;
}>;

/** For people; undefined once it has begun, and as long as nothing keeps it. */
export function waitsFor({ app, plan, records, restoring }: Looked, nowMs: number): string | undefined {
  const { restore } = plan.status;
  if (restore?.state !== 'wanted') return undefined;
  if (restore.error !== undefined && restore.nextMs > nowMs) return `its next try: ${restore.error}`;
  if (awaitsDeployment(app, restore, nowMs)) return `the deployment of ${app.spec.name} to end`;
  const made = records.find(({ status }) => status.state === 'running');
  if (made !== undefined) return `its backup ${made.id} (${makerText(made.spec.by)}) to ${endOf(made)}`;
  if (restoring >= slots.restores) return `its turn: ${restoring} other databases are being restored`;
  return nowMs < restore.wantedMs + nobodyMs
    ? undefined
    : "the controller's worker, which does not begin: flynn -a controller ps";
}

function endOf(record: DatastoreBackupResource): string {
  return isAskedFor(record) ? 'end, which somebody asked for' : 'give way';
}
