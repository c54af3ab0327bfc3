/** What the agent says of its host in the host's lease: its WireGuard key, where it is behind NAT, whom it does not hear. */
import { isDeepStrictEqual } from 'node:util';
import { pause } from '@flynn/kit/clock';
import { messageOf } from '@flynn/kit/errors';
import type { Logger } from '@flynn/kit/log';
import type { Mirror } from '@flynn/store/mirror';
import type { Store } from '@flynn/store/store';
import type { Standing } from '../fencing/standing.ts';
import { type Lease, leaseKey } from './lease.ts';

export type Told = Readonly<Pick<Lease, 'tunnelKey' | 'site' | 'localAddress' | 'unheard'>>;

export type OwnLeaseOptions = {
  hostId: string;
  /** Asked at each look. What it has no word of stays as it is in the lease; an empty list is none. */
  told: () => Told;
  leases: Pick<Mirror<Lease>, 'snapshot'>;
  store: Store;
  /** While it may not nothing is written: the lease may be another machine's to say. */
  standing: Pick<Standing, 'mayTell'>;
  log: Logger;
  /** How often to look whether the lease says it. */
  checkEveryMs?: number;
};

const usualCheckMs = 3_000;

/** The lease as it should be; undefined if it is. */
export function leaseToldOf(lease: Lease, { unheard = [], ...told }: Told): Lease | undefined {
  const { unheard: _, ...known } = lease;
  const words = Object.fromEntries(Object.entries(told).filter(([, value]) => value !== undefined));
  const wanted: Lease = { ...known, ...words, ...(unheard.length === 0 ? {} : { unheard }) };
  return isDeepStrictEqual(wanted, lease) ? undefined : wanted;
}

/** Resolves when the signal aborts. A host without a lease is none of the cluster any more, and says nothing. */
export async function keepOwnLease(options: OwnLeaseOptions, signal: AbortSignal): Promise<void> {
  const { hostId, told, leases, store, standing, log, checkEveryMs = usualCheckMs } = options;
  let complaint = '';
  while (!signal.aborted) {
    const known = leases.snapshot.entries.get(hostId);
    const lease = known === undefined ? undefined : leaseToldOf(known.value, told());
    try {
      if (known !== undefined && lease !== undefined && standing.mayTell) {
        const key = leaseKey(hostId);
        // Where somebody was quicker the mirror tells soon, and the next look is at that.
        await store.transact(
          { compare: [{ key, modRevision: known.modRevision }], then: [{ put: key, value: JSON.stringify(lease) }] },
          { signal },
        );
      }
      complaint = '';
    } catch (error) {
      const problem = messageOf(error);
      if (!signal.aborted && problem !== complaint)
        log.warn(`the host's lease cannot be written, trying on: ${problem}`);
      complaint = problem;
    }
    await pause(checkEveryMs, signal);
  }
}
