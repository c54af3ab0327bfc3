/** Keeps this process's own log from growing, where nobody else does: below `bootstrap/supervise` it is a file. */
import { copyFileSync, fstatSync, ftruncateSync, statSync } from 'node:fs';
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';

const maxBytes = 10 * 2 ** 20;
const lookEveryMs = 30_000;

/** Resolves when the signal aborts; at once when the descriptor is not this file, as under systemd. */
export async function keepLogSmall(
  file: string,
  { fd = 1, log, signal }: { fd?: number; log: Logger; signal: AbortSignal },
): Promise<void> {
  if (!isOpenAs(fd, file)) return;
  while (!signal.aborted) {
    try {
      rotate(file, fd, maxBytes);
    } catch (error) {
      log.warn(`the agent's log cannot be put aside: ${messageOf(error)}`);
    }
    await pause(lookEveryMs, signal);
  }
}

/**
 * What is in the file goes to `<file>.1`, in place of what was there. The file stays the same one: who writes appends, so
 * what comes next stands at its start. In one go, so that nothing this process says gets lost in between.
 */
export function rotate(file: string, fd: number, above: number): void {
  if (fstatSync(fd).size <= above) return;
  copyFileSync(file, `${file}.1`);
  ftruncateSync(fd);
}

/** Whatever links lead to it. */
function isOpenAs(fd: number, file: string): boolean {
  const there = statSync(file, { throwIfNoEntry: false });
  const open = fstatSync(fd);
  return there?.isFile() === true && there.dev === open.dev && there.ino === open.ino;
}
