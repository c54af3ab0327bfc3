/** Watching etcd without losing, repeating or splitting anything, over any number of connections, whatever its reader's pace. */
import { Duplex } from 'node:stream';
import { abortError, systemClock } from '@flynn/kit/clock';
import { FlynnError, asFlynnError, messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import { AsyncQueue } from '@flynn/kit/queue';
import { backoffMs, raceAbort } from '@flynn/kit/retry';
import type { IWatchResponse } from 'etcd3';
import type { EtcdMembers } from './etcd-members.ts';
import { changeOf, isFaultOfMember, rangeOf, translateError } from './etcd-wire.ts';
import { CompactedError, RestoredError } from './store.ts';
import type { Change, ChangeBatch, Revision } from './store.ts';

export type WatchRequest = {
  members: EtcdMembers;
  prefix: string;
  after: Revision;
  signal: AbortSignal;
  closing: AbortSignal;
  /** How long opening a watch may take. */
  openMs: number;
  /** Of the cluster that `after` is a revision of; undefined if nothing was heard of it yet. */
  clusterId: string | undefined;
  /** The store's revision as a majority knows it, not as one member does. */
  currentRevision: () => Promise<Revision>;
  log: Logger;
};

/**
 * A connection that breaks is followed by a fresh one from the last revision *delivered*. The revision in the header of a
 * response with events is useless for that: while a watch catches up it runs ahead of them.
 */
export async function* watchPrefix(request: WatchRequest): AsyncGenerator<ChangeBatch, void, undefined> {
  const { signal, closing, log, prefix } = request;
  let delivered = request.after;
  let { clusterId } = request;
  const checkCluster = (id: string) => {
    clusterId ??= id;
    if (id !== clusterId) throw new RestoredError(delivered);
  };
  let failures = 0;
  while (!signal.aborted) {
    if (closing.aborted) throw abortError(closing);
    try {
      for await (const batch of readOnce(request, delivered, checkCluster)) {
        failures = 0;
        delivered = batch.revision;
        yield batch;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (closing.aborted) throw abortError(closing);
      if (error instanceof CompactedError || error instanceof RestoredError) throw error;
      // While etcd restarts this happens several times a second: nothing for a person to read.
      log.debug({ err: error, prefix, after: delivered }, 'the watch broke, opening it again');
    }
    await pause(backoffMs(failures, { minMs: 50, maxMs: 1_000 }), signal, closing);
    failures += 1;
  }
}

/** One watcher on one stream, until it breaks or is told to stop. */
async function* readOnce(
  request: WatchRequest,
  after: Revision,
  checkCluster: (id: string) => void,
): AsyncGenerator<ChangeBatch, void, undefined> {
  const { members, prefix, signal, closing, openMs } = request;
  const member = members.current;
  const askedMs = performance.now();
  const responses = new AsyncQueue<IWatchResponse>();
  let unreadBytes = 0;
  const ended = AbortSignal.any([signal, closing, member.left]);
  const stop = () => responses.end(abortError(ended));
  ended.addEventListener('abort', stop, { once: true });
  const stream = pausable(await raceAbort(member.client.watchClient.watch(), ended));
  const opening = setTimeout(
    () =>
      responses.end(
        new FlynnError('unavailable', `etcd did not answer within ${openMs} ms when asked to watch ${prefix}`),
      ),
    openMs,
  );
  try {
    stream.on('data', (response) => {
      unreadBytes += bytesIn(response);
      responses.push(response);
      // Then etcd waits too, and keeps for this watch no more than where it is.
      if (responses.size >= maxUnread.responses || unreadBytes >= maxUnread.bytes) stream.pause();
    });
    stream.on('error', (error) => responses.end(translateError(error, `watching ${prefix}`)));
    stream.on('end', () => responses.end(new FlynnError('unavailable', `etcd ended the watch of ${prefix}`)));
    stream.write({ create_request: { ...rangeOf(prefix), start_revision: after + 1, progress_notify: true } });
    let delivered = after;
    for await (const response of responses) {
      unreadBytes -= bytesIn(response);
      const isFew = responses.size < maxUnread.responses / 2 && unreadBytes < maxUnread.bytes / 2;
      if (isFew && stream.isPaused()) stream.resume();
      if (response.created) clearTimeout(opening);
      checkCluster(response.header.cluster_id);
      // A member may lag behind; all of them together never do, unless they are not what they were.
      if (response.created && Number(response.header.revision) < after && (await request.currentRevision()) < after) {
        throw new RestoredError(after);
      }
      if (response.canceled) throw endOf(response, prefix);
      const batch = batchOf(response, delivered);
      if (batch === undefined) continue;
      delivered = batch.revision;
      yield batch;
    }
  } catch (error) {
    if (isFaultOfMember(error) && !ended.aborted) members.failed(member, asFlynnError(error), askedMs);
    throw error;
  } finally {
    clearTimeout(opening);
    ended.removeEventListener('abort', stop);
    // Ended first: etcd3 takes a cancelled stream that is still writable for a failure and drops its connections.
    stream.end();
    stream.cancel();
  }
}

/** So much may wait for a reader. */
const maxUnread = { responses: 64, bytes: 1024 * 1024 };

function bytesIn({ events }: IWatchResponse): number {
  return events.reduce((sum, { kv }) => sum + kv.key.length + kv.value.length, 0);
}

/** etcd3 says less of its streams than they are. */
function pausable<T>(stream: T): T & Duplex {
  if (!(stream instanceof Duplex)) throw new FlynnError('internal', 'a watch of etcd is no stream that can be paused');
  return stream;
}

function endOf(response: IWatchResponse, prefix: string): FlynnError {
  if (Number(response.compact_revision) > 0) return new CompactedError(Number(response.compact_revision));
  const reason = response.cancel_reason === '' ? 'no reason given' : response.cancel_reason;
  if (reason.includes('compacted')) return new CompactedError(0);
  return new FlynnError('unavailable', `etcd cancelled the watch of ${prefix}: ${messageOf(reason)}`);
}

/**
 * A response carries whole revisions, in order. What was delivered before (etcd 3.4 may repeat itself) is left out. One without
 * events says how far a watch is that has caught up: etcd sends it when it had nothing else to tell for ten minutes.
 */
function batchOf(response: IWatchResponse, delivered: Revision): ChangeBatch | undefined {
  const changes: Change[] = [];
  const reached = Number(response.header.revision);
  if (response.events.length === 0) {
    if (response.created || reached <= delivered) return undefined;
    return Object.freeze({ revision: reached, changes: Object.freeze(changes) });
  }
  let revision = delivered;
  for (const event of response.events) {
    const eventRevision = Number(event.kv.mod_revision);
    if (eventRevision <= delivered) continue;
    revision = eventRevision;
    changes.push(changeOf(event));
  }
  return changes.length === 0 ? undefined : Object.freeze({ revision, changes: Object.freeze(changes) });
}

async function pause(ms: number, signal: AbortSignal, closing: AbortSignal): Promise<void> {
  const ended = AbortSignal.any([signal, closing]);
  await systemClock.sleep(ms, { signal: ended }).catch((error: unknown) => {
    if (!ended.aborted) throw error;
  });
}
