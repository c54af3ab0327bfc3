/** Streams from elsewhere, whose other end may be gone without a word. */
import { Readable } from 'node:stream';
import { FlynnError, asFlynnError } from './errors.ts';

/** Nothing came for so long: who sends something has something to send. */
export const usualSilenceMs = 60_000;

/** `code` of what it fails with then: default `timeout`. */
export type Limits = { what: string; silenceMs?: number | undefined; code?: 'timeout' | 'unavailable' };

/**
 * The next of the source's chunks; after a silence the source is destroyed, and this rejects. Only while this waits it is silence:
 * how long the reader takes with a chunk is not.
 */
export async function nextChunk(
  source: Readable,
  chunks: AsyncIterator<Buffer>,
  { what, silenceMs = usualSilenceMs, code = 'timeout' }: Limits,
): Promise<IteratorResult<Buffer, unknown>> {
  let isAwaited = true;
  // After a standstill what came meanwhile is read just behind the timer.
  const late = () => setImmediate(() => isAwaited && source.destroy(new FlynnError(code, `${what} went silent`)));
  const silence = setTimeout(late, silenceMs);
  try {
    return await chunks.next();
  } finally {
    isAwaited = false;
    clearTimeout(silence);
  }
}

/**
 * The source's bytes, which fail with `timeout` after a silence while somebody waits for them: how long the reader takes is no
 * silence of the source. It has to be read to its end or destroyed, and the source goes with it.
 */
export function untilSilent(source: Readable, limits: Limits): Readable {
  // It is read in steps: what breaks it between two of them is seen by the next.
  source.on('error', () => undefined);
  const chunks: AsyncIterator<Buffer> = source.iterator();
  return new Readable({
    read() {
      nextChunk(source, chunks, limits).then(
        ({ done, value }) => this.push(done === true ? null : value),
        (error: unknown) => this.destroy(asFlynnError(error)),
      );
    },
    destroy(error, done) {
      source.destroy();
      done(error);
    },
  });
}
