/**
 * Where a host behind NAT is in its own network, told to the others of that network. Routers at home give another address now and
 * then; to those outside it makes no difference.
 */
import { isIPv4 } from 'node:net';
import { type Clock, systemClock } from '@flynn/kit/clock';
import type { Logger } from '@flynn/kit/log';
import type { Store } from '@flynn/store/store';
import { leaseKey, leaseSchema } from '../network/lease.ts';

const lookMs = 15_000;

/** Until the signal aborts; rejects with what the store says. `address`: as it is now. */
export async function followLocalAddress(
  store: Pick<Store, 'get' | 'transact'>,
  { hostId, address }: { hostId: string; address: () => Promise<string> },
  { log, signal, clock = systemClock }: { log: Logger; signal: AbortSignal; clock?: Pick<Clock, 'sleep'> },
): Promise<void> {
  let told: string | undefined;
  for (;;) {
    const now = await address();
    // A cable that is unplugged for a moment leaves none.
    if (now !== told && isIPv4(now) && !now.startsWith('127.')) {
      if (await tell(store, { hostId, address: now }, signal)) {
        log.info(`this host is at ${now} in its own network`);
      }
      told = now;
    }
    await clock.sleep(lookMs, { signal });
  }
}

/** Whether that was news. Of a host that is none of the cluster any more nothing is told. */
async function tell(
  store: Pick<Store, 'get' | 'transact'>,
  { hostId, address }: { hostId: string; address: string },
  signal: AbortSignal,
): Promise<boolean> {
  for (;;) {
    const entry = await store.get(leaseKey(hostId), { signal });
    if (entry === undefined) return false;
    const lease = leaseSchema.parse(JSON.parse(entry.value));
    if (lease.site === undefined || lease.localAddress === address) return false;
    const value = JSON.stringify({ ...lease, localAddress: address });
    const { succeeded } = await store.transact(
      { compare: [{ key: entry.key, modRevision: entry.modRevision }], then: [{ put: entry.key, value }] },
      { signal },
    );
    // Else it was changed meanwhile.
    if (succeeded) return true;
  }
}
