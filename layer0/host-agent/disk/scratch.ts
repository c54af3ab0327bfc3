/** The agent's folder for what it is about to hand on: bundles, images. Whoever makes something in it takes it away again. */
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';

export function scratchIn(stateDir: string): string {
  return join(stateDir, 'tmp');
}

/** A folder of its own in it. */
export async function scratchFolder(stateDir: string, name: string): Promise<string> {
  await mkdir(scratchIn(stateDir), { recursive: true });
  return await mkdtemp(join(scratchIn(stateDir), `${name}-`));
}

/** At an agent's start: what one that was killed, or lost its power, left there is of use to nobody. */
export async function emptyScratch(stateDir: string): Promise<void> {
  await rm(scratchIn(stateDir), { recursive: true, force: true });
}
