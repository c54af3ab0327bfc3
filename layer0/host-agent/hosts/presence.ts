/** For how long was there no agent on this host? A file's time of change says so, also after a power cut. */
import { stat, utimes, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pause } from '@flynn/kit/clock';

const everyMs = 10_000;

const presenceFile = (stateDir: string): string => join(stateDir, 'presence');

/** To be asked before `keepPresence`. Infinity where nobody knows: there never was one, or the clock was set back since. */
export async function absenceMs(stateDir: string, nowMs: number): Promise<number> {
  try {
    const { mtimeMs } = await stat(presenceFile(stateDir));
    return mtimeMs <= nowMs ? nowMs - mtimeMs : Infinity;
  } catch {
    return Infinity;
  }
}

/** Until the signal. A full disk takes it all the same, once the file is there. */
export async function keepPresence(stateDir: string, signal: AbortSignal): Promise<void> {
  const file = presenceFile(stateDir);
  await writeFile(file, '', { flag: 'a', mode: 0o600 });
  while (!signal.aborted) {
    const now = new Date();
    await utimes(file, now, now);
    await pause(everyMs, signal);
  }
}
