/** For how long has a process had something to do so far? */
import { readFileSync } from 'node:fs';

/** The kernel tells it in hundredths of a second there, on every machine there is (USER_HZ). */
const tickMs = 10;

/**
 * Milliseconds in which its main thread ran or waited for a processor: on a crowded machine one that has too much to do is busy
 * all the time, however little of it it gets. Kernels without such figures tell what all its threads had of the processors.
 * Undefined if nothing can be read: mostly, it has ended.
 */
export function busyMs(pid: number): number | undefined {
  const waits = read(`/proc/${pid}/task/${pid}/schedstat`);
  if (waits !== undefined) return busyMsOf(waits);
  const stat = read(`/proc/${pid}/stat`);
  return stat === undefined ? undefined : processorMsOf(stat);
}

/**
 * What keeps it from saying anything, by no fault of its own: for how long so far its main thread waited for a processor, and
 * whether the kernel has it wait for a disk or for memory right now, where nothing ends it either. Kernels without such figures
 * tell of no waiting.
 */
export function heldUp(pid: number): { waitedMs: number; isBlocked: boolean } {
  const stat = read(`/proc/${pid}/stat`);
  return {
    waitedMs: waitedMsOf(read(`/proc/${pid}/task/${pid}/schedstat`) ?? '0 0'),
    isBlocked: stat !== undefined && isBlockedBy(stat),
  };
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}

/** Of what schedstat says (the kernel's sched-stats.rst): nanoseconds run, and waited while it could have. */
export function busyMsOf(schedstat: string): number {
  const [ran, waited] = schedstat.split(' ');
  return (Number(ran) + Number(waited)) / 1e6;
}

export function waitedMsOf(schedstat: string): number {
  return Number(schedstat.split(' ')[1]) / 1e6;
}

/** Of what /proc/PID/stat says (proc(5)). */
export function processorMsOf(stat: string): number {
  const fields = fieldsOf(stat);
  return (Number(fields[11]) + Number(fields[12])) * tickMs;
}

export function isBlockedBy(stat: string): boolean {
  return fieldsOf(stat)[0] === 'D';
}

/** The name of the program may have anything in it, and ends with the last bracket. */
function fieldsOf(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}
