/** Asking at a steady pace, whatever the answers take, and the longest time in which none came. */
import { pause } from '@flynn/kit/clock';

/** Until the signal aborts, never waiting for the one before; then for all that are under way. `ask` does not reject. */
export async function askSteadily(
  ask: (at: number) => Promise<void>,
  { everyMs, signal }: { everyMs: number; signal: AbortSignal },
): Promise<void> {
  const running = new Set<Promise<void>>();
  for (let at = 0; !signal.aborted; at += 1) {
    const asking = ask(at).finally(() => running.delete(asking));
    running.add(asking);
    await pause(everyMs, signal);
  }
  await Promise.all(running);
}

/** Between two of these times, in any order; 0 of fewer. */
export function longestGapMs(timesMs: readonly number[]): number {
  const sorted = timesMs.toSorted((a, b) => a - b);
  return Math.max(0, ...sorted.slice(1).map((timeMs, at) => timeMs - (sorted[at] ?? timeMs)));
}
