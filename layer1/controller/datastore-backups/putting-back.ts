/**
 * Puts a backup back into its datastore: the dump, decrypted, on the standard input of the appliance's own program, which puts it
 * in the place of what is there once it has read all of it. Cut off before, nothing has changed. In the place of a dump it may be a
 * copy and a log, which its program makes a dump of by itself. Once its program ended well it is complete, however long nobody can
 * write that down; where nobody heard how its program ended, it may be in the place of what was there, and that is said.
 *
 * It begins only while the plan is as it was read: what was withdrawn meanwhile does not begin, and what has begun is not
 * withdrawn. What a person asked for is tried once. What a cluster that came back is to have is tried some times, its members
 * being waited for: nobody else uses it before.
 */
import { FlynnError, hasCode, messageOf } from '@flynn/kit/errors';
import { retry, withDeadline } from '@flynn/kit/retry';
import type { Again } from '@flynn/resource/reconciler';
import type { Revision } from '@flynn/store/store';
import type { Bytes } from '../backup/archive.ts';
import { recoveryInput } from '../datastore-history/collecting.ts';
import { roomOf } from '../datastore-history/ranges.ts';
import { holdBlobs, recoveryOf, withoutHistory } from '../datastore-history/recovery.ts';
import { appType } from '../resources.ts';
import { type DumpBlobs, openDump, wholeMs } from './making.ts';
import { feed, isEndUnknown } from './member.ts';
import { Meter } from './meter.ts';
import { awaitMembers, maxRestoreAttempts, newestComplete, restoreRetryAt } from './plan.ts';
import { guard, hasNoMember, iso, memberOf } from './subject.ts';
import type { StepDeps, StepOptions, Subject } from './subject.ts';
import { backupPlanType } from './types.ts';
import type { DatastoreBackupResource, PendingRestore } from './types.ts';

type Putting = Subject & Readonly<{ restore: PendingRestore; records: readonly DatastoreBackupResource[] }>;

export async function putBack(
  deps: StepDeps,
  blobs: DumpBlobs,
  subject: Putting,
  options: StepOptions,
): Promise<void | Again> {
  const { now, log } = deps;
  const { app, plan, restore, records } = subject;
  const { sentBytes: _s, error: before, endedAt: _n, ...asked } = restore;
  const write = (status: PendingRestore) => writeRestore(deps, plan.id, status, options);
  const fail = async (one: typeof asked, error: string): Promise<void> => {
    log.error({ datastore: app.spec.name, backup: one.backupId, error }, 'a backup could not be put back');
    await write({ ...one, state: 'failed', endedAt: iso(now()), error: error.slice(0, 1_000) });
  };
  // Done again, what was written since would be lost.
  if (restore.state === 'running' && restore.by !== undefined) {
    return fail(asked, unknownText('whoever did it died'));
  }
  if (restore.attempt >= maxRestoreAttempts) return fail(asked, before ?? 'whoever did it died');
  const isMoment = restore.at !== undefined;
  const backup = isMoment ? undefined : backupOf(restore, records);
  if (!isMoment && backup === undefined) return fail(asked, `there is no backup of ${app.spec.name} to put back`);
  const named = backup === undefined ? {} : { backupId: backup.id };
  const begun = { ...asked, ...named, attempt: restore.attempt + 1, startedAt: iso(now()) };
  const nextMs = restoreRetryAt(begun, now()) ?? now();
  const running = { ...begun, state: 'running', nextMs } as const;
  let isBegun = false;
  let sentBytes: number;
  try {
    const member = memberOf(deps, subject, begun.attempt);
    await writeRestore(deps, plan.id, running, { ...options, expectRevision: plan.revision });
    isBegun = true;
    const meter = new Meter(now, (sentBytes) => write({ ...running, sentBytes }));
    const signal = withDeadline(wholeMs, options.signal);
    const { command, input, bytes } =
      backup === undefined
        ? await momentInput(deps, blobs, subject, signal)
        : await dumpInput(blobs, subject, backup, signal);
    await feed(deps.hosts, member, command, counted(input, { what: backup?.id ?? 'the history', bytes }, meter), {
      signal,
    });
    sentBytes = bytes;
  } catch (error) {
    if (options.signal.aborted) throw error;
    // Something about the plan is another by now: it is looked at again.
    if (!isBegun && hasCode(error, 'conflict')) throw error;
    const membersMs = hasNoMember(error) ? awaitMembers(restore, now()) : undefined;
    if (membersMs !== undefined) return { againInMs: membersMs - now() };
    const retryMs = hasNoMember(error) ? undefined : restoreRetryAt(begun, now());
    if (retryMs === undefined) {
      return fail(begun, isEndUnknown(error) ? unknownText(messageOf(error)) : messageOf(error));
    }
    log.warn({ err: error, datastore: app.spec.name, restore: begun }, 'a backup could not be put back: trying again');
    await write({ ...begun, state: 'wanted', nextMs: retryMs, error: messageOf(error).slice(0, 1_000) });
    return { againInMs: 1 };
  }
  const { isOwed: _o, ...done } = begun;
  const complete = { ...done, state: 'complete', nextMs, endedAt: iso(now()), sentBytes } as const;
  // Whatever the store does, it took its place.
  await retry(() => write(complete), { what: 'the end of a restore', deadlineMs: wholeMs, signal: options.signal });
  log.info({ datastore: app.spec.name, backup: backup?.id, at: restore.at }, 'a backup was put back');
  return { againInMs: 1 };
}

function unknownText(why: string): string {
  return `it is not known whether it took its place: look at what is in it before it is restored again: ${why}`;
}

type Input = Readonly<{ command: readonly string[]; input: Bytes; bytes: number }>;

async function dumpInput(
  blobs: DumpBlobs,
  { appliance, plan }: Putting,
  { status: { digest = '', dumpBytes = 0 } }: DatastoreBackupResource,
  signal: AbortSignal,
): Promise<Input> {
  const input = await openDump(blobs, { digest, secret: plan.spec.secret }, signal);
  return { command: appliance.commands.restore, input, bytes: dumpBytes };
}

/** Recovered beside the member, then put in the place of what is there as a dump is. */
async function momentInput(
  deps: StepDeps,
  blobs: DumpBlobs,
  { app, appliance, restore: { at = '', fromId = app.id } }: Putting,
  signal: AbortSignal,
): Promise<Input> {
  const [source, { spec }] = await Promise.all([
    deps.resources.get(appType, fromId, { signal }),
    deps.resources.get(backupPlanType, fromId, { signal }),
  ]);
  const recovery = await recoveryOf(deps, source, Date.parse(at), signal);
  const { end } = recovery.pieces.at(-1) ?? { end: recovery.base.start };
  const command = appliance.history?.recover(at, roomOf(recovery), end);
  if (command === undefined) throw withoutHistory(app);
  const { input, bytes } = recoveryInput(blobs, recovery, { secret: spec.secret, signal });
  const held = async function* (): AsyncGenerator<Uint8Array> {
    await using _ = await holdBlobs(blobs, recovery, signal);
    yield* input;
  };
  return { command, input: held(), bytes };
}

async function* counted(
  dump: Bytes,
  { what, bytes }: { what: string; bytes: number },
  meter: Meter,
): AsyncGenerator<Uint8Array> {
  let sentBytes = 0;
  for await (const chunk of dump) {
    yield chunk;
    sentBytes += chunk.length;
    await meter.count(sentBytes);
  }
  // Its frames were all its own, and its blob's digest is known by its end: this is of the record.
  if (sentBytes === bytes) return;
  throw new FlynnError('internal', `${what} is ${sentBytes} bytes, and was ${bytes} when it was made`);
}

function backupOf(
  { backupId }: PendingRestore,
  records: readonly DatastoreBackupResource[],
): DatastoreBackupResource | undefined {
  if (backupId === undefined) return newestComplete(records);
  return records.find(({ id, status }) => id === backupId && status.state === 'complete');
}

/** `conflict` if somebody asked for another meanwhile, or withdrew this one. */
async function writeRestore(
  { resources }: StepDeps,
  planId: string,
  restore: PendingRestore,
  options: StepOptions & { expectRevision?: Revision },
): Promise<void> {
  const { signal, expectRevision } = options;
  await resources.updateStatus(
    backupPlanType,
    planId,
    ({ status }) => {
      if (status.restore?.wantedMs !== restore.wantedMs) {
        throw new FlynnError('conflict', 'another restore was asked for meanwhile, or this one was withdrawn');
      }
      return { ...status, restore };
    },
    { signal, also: guard(options), ...(expectRevision === undefined ? {} : { expectRevision }) },
  );
}
