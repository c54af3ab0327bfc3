/** A download that goes on where its connection broke. */
import { Readable } from 'node:stream';
import { FlynnError, asFlynnError, hasCode, messageOf } from './errors.ts';
import { backoffMs, retry } from './retry.ts';
import { abortError, systemClock } from './clock.ts';
import { nextChunk, usualSilenceMs } from './silence.ts';

const reopenMs = 60_000;
/** Connections in a row that brought nothing. */
const maxFruitless = 8;

/** The bytes from an offset on. What it throws as `unavailable` or `timeout` may be asked again. */
export type OpenFrom = (from: number, options: { signal: AbortSignal }) => Promise<Readable>;

/**
 * The bytes of `open(0)` and, after each connection that breaks or goes silent, of `open` from there on, as one stream.
 * The first opening fails as `open` does. Later ones are tried for a minute; the stream fails with what `open` throws for
 * good, or with `unavailable` when several connections in a row brought nothing. It has to be read to its end or destroyed.
 */
export async function openDownload(
  open: OpenFrom,
  options: {
    what: string;
    signal?: AbortSignal | undefined;
    /** Nothing came for so long: the other end is gone without a word. Default 60 s. */
    silenceMs?: number;
    /** Before the third connection in a row, then doubling up to 40 times as long; default 50 ms. */
    pauseMs?: number;
  },
): Promise<Readable> {
  const { what, signal, silenceMs = usualSilenceMs, pauseMs = 50 } = options;
  const closing = new AbortController();
  const ended = signal === undefined ? closing.signal : AbortSignal.any([signal, closing.signal]);
  let from = 0;
  const begin = async (): Promise<Readable> => {
    const opened = await open(from, { signal: ended });
    // It is read in steps: what breaks it between two of them is seen by the next.
    opened.on('error', () => undefined);
    return opened;
  };
  let fruitless = 0;
  let body = await begin();
  let chunks = body.iterator();

  async function reopen(because: unknown): Promise<void> {
    body.destroy();
    fruitless += 1;
    if (fruitless > maxFruitless) {
      const message = `${what} broke ${fruitless} times in a row after ${from} bytes: ${messageOf(because)}`;
      throw new FlynnError('unavailable', message, { cause: because });
    }
    const pause = fruitless === 1 ? 0 : backoffMs(fruitless - 1, { minMs: pauseMs, maxMs: 40 * pauseMs });
    await systemClock.sleep(pause, { signal: ended });
    body = await retry(begin, { what, signal: ended, deadlineMs: reopenMs });
    chunks = body.iterator();
  }

  async function next(): Promise<Buffer | null> {
    for (;;) {
      try {
        const { done, value } = await nextChunk(body, chunks, { what, silenceMs });
        if (done === true) return null;
        from += value.length;
        fruitless = 0;
        return value;
      } catch (error) {
        if (ended.aborted || !hasCode(asFlynnError(error), 'unavailable', 'timeout')) throw error;
        await reopen(error);
      }
    }
  }

  const out = new Readable({
    read() {
      next().then(
        (chunk) => this.push(chunk),
        (error: unknown) => this.destroy(asFlynnError(error)),
      );
    },
    destroy(error, done) {
      signal?.removeEventListener('abort', onAbort);
      closing.abort(new FlynnError('cancelled', `${what} was given up`));
      body.destroy();
      done(error);
    },
  });
  // Also of a reader that waits for something else.
  const onAbort = (): void => {
    if (signal !== undefined) out.destroy(abortError(signal));
  };
  signal?.addEventListener('abort', onAbort, { once: true });
  if (signal?.aborted === true) onAbort();
  return out;
}
