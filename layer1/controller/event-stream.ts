/** Changes of the store as server-sent events one can resume: an event's id is a revision everything of which was told. */
import type { IncomingHttpHeaders } from 'node:http';
import { FlynnError } from '@flynn/kit/errors';
import type { ServerEvent } from '@flynn/kit/routes';
import type { Change, ChangeBatch } from '@flynn/store/store';

/** The revision a client has seen everything of; undefined when it starts anew. */
export function resumePoint(headers: IncomingHttpHeaders): number | undefined {
  const id = headers['last-event-id'];
  if (id === undefined || id === '') return undefined;
  const revision = Number(id);
  if (Number.isSafeInteger(revision) && revision >= 0) return revision;
  throw new FlynnError('invalid', `Last-Event-ID "${String(id)}" is not one of this stream's: start without it`);
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
