/** The stream of everything an etcd cluster holds, from one of its members. */
import { Readable, addAbortSignal } from 'node:stream';
import { abortError } from '@flynn/kit/clock';
import { FlynnError } from '@flynn/kit/errors';
import { raceAbort } from '@flynn/kit/retry';
import { EtcdMembers } from './etcd-members.ts';
import type { EtcdTls } from './etcd-members.ts';
import { translateError } from './etcd-wire.ts';

/** Any member will do: each answers with what a majority had agreed on when it last heard of it. */
export type SnapshotSource = {
  endpoint: string;
  tls?: EtcdTls;
  /** Of a member that has lost the others, too: what it last heard of. Else it is `unavailable`. */
  isAloneFine?: boolean;
};

/** Chunks of at most 32 KiB, asked for as they are taken. */
export async function* readSnapshot(
  source: SnapshotSource,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const members = new EtcdMembers([source.endpoint], source.tls, { needsLeader: source.isAloneFine !== true });
  try {
    const stream: unknown = await raceAbort(members.current.client.maintenance.snapshot(), signal);
    if (!(stream instanceof Readable)) throw new FlynnError('internal', 'etcd3 gave no stream to read a snapshot from');
    addAbortSignal(signal, stream);
    stream.on('close', () => {
      // The member would wait for a reader that has left.
      if ('cancel' in stream && typeof stream.cancel === 'function') stream.cancel();
    });
    for await (const message of stream) yield blobOf(message);
  } catch (error) {
    throw signal.aborted ? abortError(signal) : translateError(error, 'saving a snapshot');
  } finally {
    members.close();
  }
}

function blobOf(message: unknown): Uint8Array {
  if (typeof message === 'object' && message !== null && 'blob' in message && message.blob instanceof Uint8Array) {
    return message.blob;
  }
  throw new FlynnError('internal', 'etcd answered with something that is no part of a snapshot');
}
