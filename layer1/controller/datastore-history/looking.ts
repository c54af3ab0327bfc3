/**
 * Asks after each blob of a datastore's history, once an hour: what is gone is known before somebody needs it.
 *
 * INVARIANTS. One is given up once it was missing in look after look for an hour, and no other answer came between: hosts that have
 * it may be away. It stays referred to, and is not lost any more once it is found again; one that is damaged stays lost.
 */
import { hasCode } from '@flynn/kit/errors';
import type { Again } from '@flynn/resource/reconciler';
import { guard } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import type { HistoryBlobs } from './catalogue.ts';
import { LostBlob, readStored } from './collecting.ts';
import { givenUp, lookedAt, withLost } from './missing.ts';
import type { Answer } from './missing.ts';
import { allPieces } from './pieces.ts';
import { isDue } from './plan.ts';
import { recordsOf } from './subject.ts';
import { archiveType, historyType } from './types.ts';
import type { ArchiveResource, HistoryResource, HistoryStatus, Piece } from './types.ts';

type Part = Pick<Piece, 'digest' | 'bytes' | 'blobBytes' | 'isLost' | 'isDamaged'>;

/** A store that does not answer is not asked for all of them: each takes as long as its deadline. */
const mostUnknown = 3;

/** One look at the blobs of the datastore of that app. */
export async function stepLook(
  deps: StepDeps,
  blobs: HistoryBlobs,
  appId: string,
  options: StepOptions,
): Promise<void | Again> {
  const { resources, log, now } = deps;
  const { signal } = options;
  const records = await recordsOf(resources, appId, signal);
  if (records === undefined) return undefined;
  const { plan, history, archive } = records;
  const parts: Part[] = [...archive.status.bases, ...allPieces(archive.status, history.status)];
  if (parts.length === 0) return undefined;
  const { nextMs = 0 } = history.status.looked ?? {};
  if (!isDue(nextMs, now())) return { againInMs: nextMs - now() };
  const begunMs = now();
  const answers = await ask(blobs, parts, { history: history.status, secret: plan.spec.secret }, options);
  const at = { begunMs, nowMs: now() };
  const { lost } = givenUp(lookedAt(history.status.looked, answers, at));
  const write = { signal, also: guard(options) };
  // Before it is not missing any more: whoever dies in between finds it so once more.
  const changed = ({ status: { bases, pieces } }: ArchiveResource) => ({
    bases: withLost(bases, lost, answers),
    pieces: withLost(pieces, lost, answers),
  });
  const isChanged = lost.length > 0 || parts.some(({ digest, isLost }) => isLost && answers.get(digest) === 'there');
  if (isChanged) await resources.updateStatus(archiveType, appId, changed, write);
  const reason = `${lost.length} of its parts cannot be read any more, the first of them ${lost[0]?.digest}`;
  if (lost.length > 0) log.warn({ datastore: plan.spec.datastore, reason }, 'parts of a history are given up');
  const told = lost.length === 0 ? {} : { gap: { atMs: at.nowMs, reason } };
  const next = ({ status }: HistoryResource): HistoryStatus => ({
    ...status,
    ...told,
    recent: withLost(status.recent, lost, answers),
    looked: givenUp(lookedAt(status.looked, answers, at)).looked,
  });
  const { status } = await resources.updateStatus(historyType, appId, next, write);
  return { againInMs: Math.max(1, (status.looked?.nextMs ?? 0) - now()) };
}

/** What is lost already, and not there, is not missing anew. Whoever died before it was told that it is finds it missing still. */
async function ask(
  blobs: HistoryBlobs,
  parts: readonly Part[],
  { history, secret }: { history: HistoryStatus; secret: string },
  options: StepOptions,
): Promise<Map<string, Answer>> {
  const missing = new Map(history.looked?.missing.map((one) => [one.digest, one]));
  const answers = new Map<string, Answer>();
  let unknown = 0;
  for (const part of parts) {
    const { digest, isLost, isDamaged } = part;
    const before = missing.get(digest);
    if (isDamaged === true && before === undefined) continue;
    const answer =
      unknown >= mostUnknown
        ? 'unknown'
        : await askOne(blobs, part, { isRead: before?.isDamaged === true, secret }, options);
    if (answer === 'unknown') unknown += 1;
    if (isLost !== true || before !== undefined || answer === 'there') answers.set(digest, answer);
  }
  return answers;
}

async function askOne(
  blobs: HistoryBlobs,
  part: Part,
  { isRead, secret }: { isRead: boolean; secret: string },
  options: StepOptions,
): Promise<Answer> {
  const { signal } = options;
  try {
    await (isRead ? readStored(blobs, part, { secret }, options) : blobs.stat(part.digest, { signal }));
    return 'there';
  } catch (error) {
    signal.throwIfAborted();
    return hasCode(error, 'not_found') || error instanceof LostBlob ? 'gone' : 'unknown';
  }
}
