/** What is too old goes: see pieces.ts. What fails here is tried again with the next minute. */
import { guard } from '../datastore-backups/subject.ts';
import type { StepDeps, StepOptions } from '../datastore-backups/subject.ts';
import { blobsOfArchive, kept, keptSince } from './pieces.ts';
import { archiveType, historyType } from './types.ts';
import type { HistoryResource } from './types.ts';

type Options = StepOptions & Readonly<{ days: number }>;

/** Whatever else cannot be done: what is kept does not grow without end. */
export async function forget(deps: StepDeps, id: string, options: Options): Promise<void> {
  try {
    await forgetOld(deps, id, options);
  } catch (error) {
    if (options.signal.aborted) throw error;
    deps.log.warn({ err: error, datastore: id }, 'what is too old of a history could not be forgotten');
  }
}

async function forgetOld({ resources, now }: StepDeps, id: string, options: Options): Promise<void> {
  const { signal, days } = options;
  const { status: history } = await resources.get(historyType, id, { signal });
  const { status: archive } = await resources.get(archiveType, id, { signal });
  const sinceMs = keptSince(archive, history, { days, nowMs: now() });
  const left = kept(archive, history, sinceMs);
  const write = { signal, also: guard(options) };
  if (blobsOfArchive(left.archive).length < blobsOfArchive(archive).length) {
    await resources.updateStatus(archiveType, id, ({ status }) => kept(status, history, sinceMs).archive, write);
  }
  if (left.recent.length === history.recent.length && left.ended.length === (history.ended ?? []).length) return;
  const needed = new Set(left.recent.map(({ digest }) => digest));
  const newest = ({ status }: HistoryResource) => ({
    ...status,
    recent: status.recent.filter(({ digest }) => needed.has(digest)),
    ended: left.ended,
  });
  await resources.updateStatus(historyType, id, newest, write);
}
