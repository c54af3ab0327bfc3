/** Changes of the store as server-sent events one can resume: an event's id is a revision everything of which was told. */
import type { IncomingHttpHeaders } from 'node:http';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import type { ServerEvent } from '@flynn/kit/routes';
import { cellKeys } from '@flynn/scheduler/cell';
import type { Change, ChangeBatch, Store } from '@flynn/store/store';

/** What a client has seen everything of, a revision or a line's number; undefined when it starts anew. */
export function resumePoint(headers: IncomingHttpHeaders): number | undefined {
  const id = headers['last-event-id'];
  if (id === undefined || id === '') return undefined;
  const revision = Number(id);
  if (Number.isSafeInteger(revision) && revision >= 0) return revision;
  throw new FlynnError('invalid', `Last-Event-ID "${String(id)}" is not one of this stream's: start without it`);
}

/**
 * The revision that a stream of changes goes on after; undefined when it starts anew. Throws `conflict` with `detail.expired` where
 * what changed since is not known any more: before the stream begins, so that no client takes it for one in which nothing changes,
 * nor connects again and again as browsers do to one that broke.
 */
export async function resumeAfter(
  store: Pick<Store, 'list'>,
  headers: IncomingHttpHeaders,
  signal: AbortSignal,
): Promise<number | undefined> {
  const after = resumePoint(headers);
  if (after === undefined) return undefined;
  try {
    await store.list(cellKeys.hosts, { revision: after, first: 1, signal });
    return after;
  } catch (error) {
    // A revision that is yet to come is of another history.
    if (!hasCode(error, 'conflict', 'invalid')) throw error;
    const why = hasCode(error, 'invalid') ? 'the store was restored since' : 'changes are kept for half an hour';
    const text = `what changed after ${after} is not known any more (${why}): begin again without Last-Event-ID, and compare what is told up to "current" with what you know`;
    throw new FlynnError('conflict', text, { detail: { expired: true }, cause: error });
  }
}

/** Of several events of one revision only the last carries it, so that resuming never skips the others. */
export function withRevisions(
  batch: ChangeBatch,
  eventOf: (change: Change) => Omit<ServerEvent, 'id'> | undefined,
): ServerEvent[] {
  const told = batch.changes.flatMap((change) => {
    const event = eventOf(change);
    return event === undefined
      ? []
      : [{ event, revision: change.type === 'put' ? change.entry.modRevision : change.modRevision }];
  });
  const events: ServerEvent[] = [];
  for (const [index, { event, revision }] of told.entries()) {
    events.push(told[index + 1]?.revision === revision ? event : { id: String(revision), ...event });
  }
  return events;
}
