/** Copies all there is in a datastore, where that is due. Its log is collected meanwhile: see steps.ts. */
import { hasCode, messageOf } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import { guard, memberOf } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import { appType } from '../resources.ts';
import type { HistoryBlobs } from './catalogue.ts';
import { copyAll } from './collecting.ts';
import { baseDue, baseRetryMs, settleMs } from './plan.ts';
import { historyDays, subjectOf } from './subject.ts';
import type { HistorySubject } from './subject.ts';
import { archiveType, historyType } from './types.ts';
import type { Base, HistoryStatus } from './types.ts';

type OpenBase = NonNullable<HistoryStatus['base']>;

/** How much was written is looked at anew after so long. */
const lookMs = 15 * 60_000;

/** One look at the datastore of that app. */
export async function stepCopy(
  deps: StepDeps,
  blobs: HistoryBlobs,
  appId: string,
  options: StepOptions,
): Promise<void | Again> {
  const subject = await subjectOf(deps, blobs, appId, options);
  if (subject === undefined || subject === 'not yet' || historyDays(subject.plan) === 0) return undefined;
  // It is looked at again when its log is.
  if (!subject.isWanted) return undefined;
  const { now } = deps;
  const due = baseDue(subject.archive.status, subject.history.status, now());
  if (due.is === 'wait') return { againInMs: Math.max(1, Math.min(lookMs, (due.untilMs ?? Infinity) - now())) };
  await copy(deps, blobs, subject, options);
  return { againInMs: 1 };
}

async function copy(
  deps: StepDeps,
  blobs: HistoryBlobs,
  { app, appliance, programs, plan, history }: HistorySubject,
  options: StepOptions,
): Promise<void> {
  const { now, log, resources, hosts } = deps;
  const { signal } = options;
  // Collected log goes where no copy under way needs it: it is from where the log is as this is written.
  const opened = await resources.updateStatus(historyType, app.id, opening(history.status.run, now()), {
    signal,
    also: guard(options),
  });
  const { run, at, base: open } = opened.status;
  // A gap ended the run meanwhile.
  if (run !== history.status.run || at === undefined || open === undefined) return;
  const { error: _e, failingSinceMs, ...begun } = open;
  const { attempt, start } = begun;
  const write = async (base: OpenBase, latestMs = Infinity): Promise<void> => {
    const change = ({ status }: { status: HistoryStatus }) => ({
      ...status,
      base,
      nextMs: Math.min(status.nextMs, latestMs),
    });
    await resources.updateStatus(historyType, app.id, change, { signal, also: guard(options) });
  };
  try {
    const member = memberOf(deps, { app, appliance }, attempt);
    const made = await copyAll({ hosts }, blobs, programs, { member, secret: plan.spec.secret }, options);
    await keep(deps, app.id, { run, start, startedMs: begun.startedMs, endedMs: now(), ...made }, options);
    // It is of use once the log was collected after it.
    await write(begun, now() + settleMs);
    log.info({ datastore: app.spec.name, bytes: made.bytes }, 'a datastore was copied for its history');
  } catch (err) {
    if (signal.aborted) throw err;
    if (hasCode(err, 'not_found') && (await resources.find(appType, app.id, { signal })) === undefined) return;
    log.warn({ err, datastore: app.spec.name, attempt }, 'a datastore could not be copied for its history');
    const nextMs = now() + baseRetryMs(attempt);
    await write({ ...begun, nextMs, error: messageOf(err).slice(0, 1_000), ...(failingSinceMs && { failingSinceMs }) });
  }
}

/** Begins a copy of that run from where its log is collected to. The same where that run is over. */
export function opening(run: number, nowMs: number): (record: { status: HistoryStatus }) => HistoryStatus {
  return ({ status }) => {
    const { at, base: before } = status;
    if (status.run !== run || at === undefined) return status;
    const isAgain = before?.run === run && before.error !== undefined;
    const attempt = isAgain ? before.attempt + 1 : 1;
    // Whoever dies leaves a try that failed, and what it was for is kept so long.
    const base = {
      run,
      attempt,
      start: { timeline: at.timeline, lsn: at.lsn },
      startedMs: nowMs,
      nextMs: nowMs + baseRetryMs(attempt),
      error: (isAgain ? before.error : undefined) ?? 'whoever made it died',
      failingSinceMs: (isAgain ? before.failingSinceMs : undefined) ?? nowMs,
    };
    return { ...status, base };
  };
}

/** Of a run that is over by now it is of no use: it is dropped with what else is not needed. */
async function keep({ resources }: StepDeps, id: string, base: Base, options: StepOptions): Promise<void> {
  const { signal } = options;
  await resources.updateStatus(
    archiveType,
    id,
    ({ status }) => ({ ...status, bases: [...status.bases.filter(({ digest }) => digest !== base.digest), base] }),
    { signal, also: guard(options) },
  );
}
