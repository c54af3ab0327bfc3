/** The body of a hook: all of it counts for the proof, and little of it is kept. */
import type { Readable } from 'node:stream';
import { FlynnError } from '@flynn/kit/errors';
import type { Proof } from './proof.ts';

export type BodyLimits = Readonly<{
  maxBytes: number;
  /** Longer ones are proven and not read. */
  keptBytes: number;
  deadlineMs: number;
  /** Nothing of it comes for so long. */
  silentMs: number;
}>;

/** GitHub sends 25 MB at the most and waits for 10 s; a push of a few commits is some kilobytes. */
export const bodyLimits: BodyLimits = {
  maxBytes: 25 * 1024 ** 2,
  keptBytes: 512 * 1024,
  deadlineMs: 10_000,
  silentMs: 3_000,
};

/**
 * Gives all of it to `proof`. The text is undefined for one that is longer than what is kept. Throws `invalid` for what is longer
 * than hooks are, `timeout`, and `cancelled` when the sender goes away.
 */
export async function readHook(
  body: Readable,
  proof: Proof,
  { maxBytes, keptBytes, deadlineMs, silentMs }: BodyLimits = bodyLimits,
): Promise<string | undefined> {
  const endAfter = (ms: number, why: string): NodeJS.Timeout =>
    setTimeout(() => body.destroy(new FlynnError('timeout', why)), ms);
  const whole = endAfter(deadlineMs, `the hook did not arrive within ${deadlineMs / 1_000} s`);
  const silence = endAfter(silentMs, `nothing more of the hook came for ${silentMs / 1_000} s`);
  let kept: Buffer[] | undefined = [];
  let bytes = 0;
  try {
    for await (const chunk of body as AsyncIterable<Buffer>) {
      silence.refresh();
      bytes += chunk.length;
      if (bytes > maxBytes) {
        throw new FlynnError('invalid', `the hook is larger than ${Math.floor(maxBytes / 1024 ** 2)} MB`);
      }
      proof.update(chunk);
      if (bytes > keptBytes) kept = undefined;
      kept?.push(chunk);
    }
  } finally {
    clearTimeout(whole);
    clearTimeout(silence);
  }
  return kept === undefined ? undefined : Buffer.concat(kept).toString('utf8');
}
