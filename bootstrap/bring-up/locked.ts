import { withHostLock } from '../host-lock.ts';
import type { Options } from '../settings.ts';

/** Who may not lock anything may not change anything either, and is told so with all else that is in the way. */
export async function lockedIfRoot<T>(options: Options, doing: string, task: () => Promise<T>): Promise<T> {
  return process.getuid?.() === 0 ? await withHostLock(options.FLYNN_STATE_DIR, doing, task) : await task();
}
