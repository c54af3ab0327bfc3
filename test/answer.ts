/** What a server answers to one request, all of it. */
import { once } from 'node:events';
import type { ClientRequest, IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';

export type Answer = { status: number; body: string; headers: Record<string, string | string[] | undefined> };

const patienceMs = 30_000;

/** Of a request without a body. Until the signal; without one, for 30 s. Fails as the connection does. */
export async function answerTo(outgoing: ClientRequest, given?: AbortSignal): Promise<Answer> {
  const signal = given ?? AbortSignal.timeout(patienceMs);
  const abort = () => outgoing.destroy(new Error('no answer in time', { cause: signal.reason }));
  signal.addEventListener('abort', abort, { once: true });
  // Told by the answer where there is one, else by waiting for it.
  outgoing.on('error', () => undefined);
  if (signal.aborted) abort();
  try {
    const answered = once(outgoing, 'response') as Promise<[IncomingMessage]>;
    outgoing.end();
    const [incoming] = await answered;
    const body = await text(incoming);
    return { status: incoming.statusCode ?? 0, body, headers: incoming.headers };
  } finally {
    signal.removeEventListener('abort', abort);
  }
}
