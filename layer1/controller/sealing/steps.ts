/** Rewrites what is in clear or sealed with an older key, and retires older keys once nothing can use them any more. */
import { pause } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import { forever } from '@flynn/kit/tasks';
import type { Compare } from '@flynn/store/store';
import { freshMs } from '@flynn/store/sealing/known-keys';
import { rewriteAll } from '@flynn/store/sealing/rewrite';
import { readRing, retireOldKeys } from '@flynn/store/sealing/ring';
import type { SealedStore } from '@flynn/store/sealing/sealed-store';

const lookMs = 5_000;
/** After this long nobody writes with a key that was replaced, nor in clear. */
const settleMs = 2 * freshMs;

type Options = { signal: AbortSignal; epoch: Compare; log: Logger };

/** Of a store that seals nothing there is nothing to keep. */
export async function keepSealed(sealed: SealedStore | undefined, options: Options): Promise<void> {
  if (sealed === undefined) return;
  const step = async (signal: AbortSignal): Promise<void> => {
    await stepSealing(sealed, { ...options, signal, settleMs });
    await pause(lookMs, signal);
  };
  await forever('sealing', step, { signal: options.signal, log: options.log });
}

/** True once only the current key is left. Whoever goes on after one that was broken off loses nothing but its time. */
export async function stepSealing(sealed: SealedStore, options: Options & { settleMs: number }): Promise<boolean> {
  const { signal, epoch, log } = options;
  const stored = await readRing(sealed.raw, { signal });
  if (stored === undefined) return false;
  if (stored.ring.rewriting === undefined) return true;
  const walk = () => rewriteAll(sealed, { signal, compare: [epoch] });
  const first = await walk();
  if (first.rewritten > 0) log.info({ count: first.rewritten }, 'values were sealed with the current key');
  await pause(options.settleMs, signal);
  signal.throwIfAborted();
  const { rewritten, left, unreadable } = await walk();
  if (rewritten + left > 0) return false;
  if (unreadable.length > 0) log.error({ keys: unreadable.slice(0, 20) }, 'values that do not open stay as they are');
  if (!(await retireOldKeys(sealed.raw, stored, { signal, compare: [epoch] }))) return false;
  log.info({ current: stored.ring.current }, 'all secrets are sealed with the current key');
  return true;
}
