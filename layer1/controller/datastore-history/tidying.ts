/** Makes few pieces of many, and forgets what is too old: see pieces.ts. What fails here is tried again with the next minute. */
import { guard } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import type { HistoryBlobs } from './catalogue.ts';
import { mergeStored } from './collecting.ts';
import { blobsOfArchive, dueMerge, kept, mergedPiece, unmerged, withMerged } from './pieces.ts';
import { dayMs } from './plan.ts';
import type { HistorySubject } from './subject.ts';
import { archiveType, historyType } from './types.ts';
import type { Archive, HistoryResource, HistoryStatus } from './types.ts';

/** Newest pieces are merged by sixteen, an archive's as well: more than this is not due at once. */
const mostMerges = 4;

type Options = StepOptions & Readonly<{ days: number }>;

export async function tidy(
  deps: StepDeps,
  blobs: HistoryBlobs,
  { app, plan }: HistorySubject,
  options: Options,
): Promise<void> {
  try {
    let merges = 0;
    while (merges < mostMerges && (await merge(deps, blobs, { id: app.id, secret: plan.spec.secret }, options)))
      merges += 1;
    await forget(deps, app.id, options);
  } catch (error) {
    if (options.signal.aborted) throw error;
    deps.log.warn({ err: error, datastore: app.spec.name }, 'the history of a datastore could not be tidied');
  }
}

/** Whether there was something to be made one. */
async function merge(
  deps: StepDeps,
  blobs: HistoryBlobs,
  { id, secret }: Readonly<{ id: string; secret: string }>,
  options: Options,
): Promise<boolean> {
  const { resources } = deps;
  const { history, archive } = await known(deps, id, options);
  const due = dueMerge(archive, history);
  if (due === undefined) return false;
  const [first] = due;
  const stored = due.length === 1 && first !== undefined ? first : await mergeStored(blobs, due, { secret }, options);
  const { digest, blobBytes, bytes } = stored;
  const one = mergedPiece(due, { digest, blobBytes, bytes });
  if (one === undefined) return false;
  const write = { signal: options.signal, also: guard(options) };
  const merged = await resources.updateStatus(archiveType, id, ({ status }) => withMerged(status, due, one), write);
  const newest = ({ status }: HistoryResource) => ({ ...status, recent: unmerged(merged.status, status.recent) });
  await resources.updateStatus(historyType, id, newest, write);
  return true;
}

async function forget(deps: StepDeps, id: string, options: Options): Promise<void> {
  const { resources, now } = deps;
  const { history, archive } = await known(deps, id, options);
  const sinceMs = now() - options.days * dayMs;
  const left = kept(archive, history, sinceMs);
  const write = { signal: options.signal, also: guard(options) };
  if (blobsOfArchive(left.archive).length < blobsOfArchive(archive).length) {
    await resources.updateStatus(archiveType, id, ({ status }) => kept(status, history, sinceMs).archive, write);
  }
  if (left.recent.length === history.recent.length) return;
  const needed = new Set(left.recent.map(({ digest }) => digest));
  const newest = ({ status }: HistoryResource) => ({
    ...status,
    recent: status.recent.filter(({ digest }) => needed.has(digest)),
  });
  await resources.updateStatus(historyType, id, newest, write);
}

async function known(
  { resources }: StepDeps,
  id: string,
  { signal }: Options,
): Promise<{ history: HistoryStatus; archive: Archive }> {
  const history = (await resources.get(historyType, id, { signal })).status;
  const archive = (await resources.get(archiveType, id, { signal })).status;
  return { history, archive };
}
