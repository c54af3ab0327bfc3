/** Does anything keep what nobody needs from being collected? */
import type { Check, Found } from '@flynn/host-agent/doctor/finding';
import type { Deps } from '../deps.ts';
import { readRounds } from './round-state.ts';
import type { RoundState } from './round-state.ts';

/** A blob store that is away for a while keeps a round from ending, too. */
const failingMs = 3 * 3_600_000;

export function collectionCheck({ store, now }: Pick<Deps, 'store' | 'now'>): Check {
  return { name: 'collection', find: async (signal) => collectionFindings(await readRounds(store, signal), now()) };
}

/** Pure. */
export function collectionFindings({ failure }: RoundState, nowMs: number): Found[] {
  if (failure === undefined) return [];
  const { since, message, isUnreadable } = failure;
  if (!isUnreadable && nowMs < Date.parse(since) + failingMs) return [];
  return [
    {
      severity: 'warning',
      subject: 'collection',
      what: `what nothing refers to cannot be collected: ${message}`,
      since,
      why: isUnreadable
        ? 'the record may refer to any release or blob: all of them stay until it can be read, and disks fill'
        : 'releases and blobs that nobody needs stay, and disks fill',
      remedy: isUnreadable
        ? 'if a later version of flynn wrote it, go to that version again (flynn-host update); if it is damaged, what it was is in a backup of the cluster; flynn gc --forget KEY deletes it for good; then flynn gc'
        : 'flynn -a controller log -t worker has what it says; flynn gc tries it now',
    },
  ];
}
