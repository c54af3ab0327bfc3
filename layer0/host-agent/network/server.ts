/** The agent's API for the network between hosts. */
import { systemClock } from '@flynn/kit/clock';
import { type Handler, handle } from '@flynn/kit/http-server';
import { withDeadline } from '@flynn/kit/retry';
import type { Store } from '@flynn/store/store';
import { networkRoutes } from './api.ts';
import { readEncryption, writeEncryption } from './encryption.ts';
import type { HostNetwork } from './host-network.ts';

/** A person waits for the answer. */
const storeMs = 3_000;

export function networkHandlers(
  network: Pick<HostNetwork, 'shown'>,
  store: Pick<Store, 'get' | 'transact'>,
): Handler[] {
  return [
    handle(networkRoutes.show, async () => network.shown),
    handle(networkRoutes.encryption, async ({ signal }) => ({
      encryption: await readEncryption(store, withDeadline(storeMs, signal)),
    })),
    handle(networkRoutes.setEncryption, async ({ body: { encryption }, signal }) => {
      await writeEncryption(store, encryption, { now: systemClock.now(), signal: withDeadline(storeMs, signal) });
      return { encryption };
    }),
  ];
}
