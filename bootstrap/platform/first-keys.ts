/**
 * Whoever makes a cluster may push to it at once, with every app's rights. That is so once: from then on SSH keys come and go by
 * `flynn key` alone, and no later `up` brings back one that was taken away.
 */
import { hasCode } from '@flynn/kit/errors';
import { type Cluster } from '../settings.ts';
import { type Platform } from './platform.ts';

/** Until an `up` has come through, or a backup is back. `isRestored`: of one that is brought back from a backup. */
export function takesFirstKeys({ sample }: Pick<Cluster, 'sample'>, isRestored?: boolean): boolean {
  return isRestored === undefined ? sample === undefined : !isRestored;
}

/** What is somebody's already pushes as theirs. */
export async function addFirstKeys(platform: Pick<Platform, 'addKey'>, publicKeys: readonly string[]): Promise<void> {
  for (const publicKey of publicKeys) {
    try {
      await platform.addKey(publicKey);
    } catch (error) {
      if (!hasCode(error, 'conflict')) throw error;
    }
  }
}
