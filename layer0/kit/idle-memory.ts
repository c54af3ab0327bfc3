/**
 * Gives back memory that an idle process holds on to. V8 collects what it must while much is allocated, and rarely all of it:
 * what a start or a burst of work took stays with a process that has little to do, for good.
 */
import { getHeapStatistics, setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { pause } from './clock.ts';

const mebibyte = 2 ** 20;
const lookEveryMs = 30_000;
/** With less to do than this share of its time, nobody waits for most processes. */
const usualIdleShare = 0.05;
/** Less than a quarter is had less often. */
const patientMs = 60_000;
/** The whole of a larger heap takes longer to collect than anybody may be kept waiting. */
const largestBytes = 96 * mebibyte;

/** Whether there is something to be had: the heap's size now, and after the last time (0 before the first). */
export function isWorthCollecting(heap: {
  bytes: number;
  bytesAfterLast: number;
  busyShare: number;
  idleShare?: number;
  sinceLastMs: number;
}): boolean {
  const { bytes, bytesAfterLast, busyShare, idleShare = usualIdleShare, sinceLastMs } = heap;
  const allowed = sinceLastMs < patientMs ? bytesAfterLast * 1.25 + 2 * mebibyte : bytesAfterLast * 1.1 + mebibyte;
  return busyShare < idleShare && bytes <= largestBytes && bytes > allowed;
}

export type IdleOptions = Readonly<{
  /** Of the process's time what it may have to do at most for a tenth of a second without it to be nobody's loss. */
  idleShare?: number;
  /** For who is asked after a rest and answers at once: what does it is not to be compiled again first. */
  keepsCode?: boolean;
}>;

/** Resolves when the signal aborts. Each time costs a tenth of a second, in which nothing else is done. */
export async function keepHeapSmall(signal: AbortSignal, options: IdleOptions = {}): Promise<void> {
  const collect = fullCollection(options);
  let bytesAfterLast = 0;
  let lastMs = performance.now();
  let seen = performance.eventLoopUtilization();
  while (!signal.aborted) {
    await pause(lookEveryMs, signal);
    const now = performance.eventLoopUtilization();
    const busyShare = performance.eventLoopUtilization(now, seen).utilization;
    seen = now;
    const sinceLastMs = performance.now() - lastMs;
    const isWorth = isWorthCollecting({ bytes: heapBytes(), bytesAfterLast, busyShare, sinceLastMs, ...options });
    if (signal.aborted || !isWorth) continue;
    collect();
    bytesAfterLast = heapBytes();
    lastMs = performance.now();
  }
}

function heapBytes(): number {
  return getHeapStatistics().total_heap_size;
}

/** How many collections it takes for code that does not run to go, and whether what was compiled of it goes, too. */
const usualAge = ['--bytecode-old-age=6', '--no-flush-baseline-code'] as const;
/** Of a start most code never runs again. It is a fifth of a heap, and compiled anew when it is wanted. */
const earlyAge = ['--bytecode-old-age=1', '--flush-baseline-code'] as const;

/** Of everything, with its pages given back; the function exists only in contexts made under the flag. */
export function fullCollection({ keepsCode = false }: Pick<IdleOptions, 'keepsCode'> = {}): () => void {
  setFlagsFromString('--expose-gc');
  const gc: unknown = runInNewContext('gc');
  setFlagsFromString('--no-expose-gc');
  return () => {
    if (typeof gc !== 'function') return;
    if (!keepsCode) for (const flag of earlyAge) setFlagsFromString(flag);
    gc({ type: 'major', execution: 'sync', flavor: 'last-resort' });
    if (!keepsCode) for (const flag of usualAge) setFlagsFromString(flag);
  };
}
