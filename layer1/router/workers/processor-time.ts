/** How much of the processors has a process had so far? */
import { readFileSync } from 'node:fs';

/** The kernel tells it in hundredths of a second, on every machine there is (USER_HZ). */
const tickMs = 10;

/** Milliseconds, of all its threads, in programs and in the kernel; undefined if that cannot be read: mostly, it has ended. */
export function processorMs(pid: number): number | undefined {
  try {
    return processorMsOf(readFileSync(`/proc/${pid}/stat`, 'utf8'));
  } catch {
    return undefined;
  }
}

/** Of what /proc/PID/stat says (proc(5)). The name of the program may have anything in it, and ends with the last bracket. */
export function processorMsOf(stat: string): number {
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}
