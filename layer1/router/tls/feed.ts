/** The certificates as the controller tells them. */
import { certificates as routes } from '@flynn/controller/certificates/api';
import { servedCertificateSchema } from '@flynn/controller/certificates/model';
import type { ServedCertificate } from '@flynn/controller/certificates/model';
import { FlynnError } from '@flynn/kit/errors';
import type { HttpClient } from '@flynn/kit/http-client';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import { z } from 'zod';
import { idSchema } from '../feed.ts';
import type { FeedEvent } from '../feed.ts';

const ticketsSchema = z.object({ key: z.base64() });

/** What the feed says becomes true here. */
export type CertificateSink = {
  replace(all: readonly ServedCertificate[]): void;
  set(certificate: ServedCertificate): void;
  remove(id: string): void;
  tickets(key: Buffer): void;
  /** What is in force under that id. */
  known(id: string): ServedCertificate | undefined;
};

/**
 * One connection's events. It begins with every certificate there is: what was known before stays in force until `current`,
 * and is then replaced.
 */
async function applyCertificates(events: AsyncIterable<FeedEvent>, sink: CertificateSink, log: Logger): Promise<void> {
  let first: Map<string, ServedCertificate> | undefined = new Map();
  for await (const { event, data } of events) {
    if (event === 'current' && first !== undefined) {
      sink.replace([...first.values()]);
      first = undefined;
    } else if (event === 'set' || event === 'unreadable') {
      // One that is there, but that nobody can read, stays as it was.
      const one =
        (event === 'set' ? read(data, log) : undefined) ?? sink.known(idSchema.safeParse(data).data?.id ?? '');
      if (one !== undefined && first !== undefined) first.set(one.id, one);
      else if (one !== undefined) sink.set(one);
    } else if (event === 'tickets') sink.tickets(Buffer.from(ticketsSchema.parse(data).key, 'base64'));
    else if (event === 'remove') {
      const { id } = idSchema.parse(data);
      if (first === undefined) sink.remove(id);
      else first.delete(id);
    }
  }
}

function read(data: unknown, log: Logger): ServedCertificate | undefined {
  const parsed = servedCertificateSchema.safeParse(data);
  // Never the data itself: it holds a key.
  if (!parsed.success) log.error({ problem: z.prettifyError(parsed.error) }, 'the controller sent a bad certificate');
  return parsed.data;
}

/** Runs until the signal aborts. While the controller cannot be reached the last known certificates stay as they are. */
export async function followCertificates(options: {
  controller: Pick<HttpClient, 'events'>;
  sink: CertificateSink;
  signal: AbortSignal;
  log: Logger;
}): Promise<void> {
  const { controller, sink, log } = options;
  const step = async (signal: AbortSignal) => {
    await applyCertificates(controller.events(routes.events, {}, { signal }), sink, log);
    if (!signal.aborted) throw new FlynnError('unavailable', 'the controller ended the stream of certificates');
  };
  await forever('following the certificates', step, { signal: options.signal, log, maxMs: 2_000 });
}
