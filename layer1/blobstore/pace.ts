/** Bytes no faster than so many a second: upkeep must not be in anybody's way. */
import type { Clock } from '@flynn/kit/clock';

/** Shorter pauses are saved up: a timer costs more than they are worth. */
const leastPauseMs = 10;

export async function* paced(
  body: AsyncIterable<Uint8Array>,
  { bytesPerSecond, clock, signal }: { bytesPerSecond: number; clock: Clock; signal: AbortSignal },
): AsyncGenerator<Uint8Array> {
  let dueMs = clock.now();
  for await (const chunk of body) {
    yield chunk;
    dueMs = Math.max(dueMs, clock.now() - 1_000) + (chunk.length / bytesPerSecond) * 1_000;
    const pauseMs = dueMs - clock.now();
    if (pauseMs >= leastPauseMs) await clock.sleep(pauseMs, { signal });
  }
}
