/** A stream of writes through several clients for tests that break things under it: what was acknowledged, and when. */
import { hasCode } from '@flynn/kit/errors';
import { waitFor } from '@flynn/kit/retry';
import { put } from './conformance.ts';
import type { Store } from './store.ts';

type Acknowledged = Readonly<{ key: string; revision: number; sentMs: number; ackedMs: number }>;

export interface Writers {
  readonly acknowledged: readonly Acknowledged[];
  /** So many more than now. */
  untilAcknowledged(count: number): Promise<void>;
  /** When the first write was acknowledged that was sent after this moment, both by performance.now(). */
  untilWrittenAfter(ms: number): Promise<number>;
  stop(): Promise<void>;
}

/** Each client writes one key after the other, each key once, and takes `unavailable` and `timeout` for "perhaps". */
export function startWriters(clients: readonly Store[], prefix: string): Writers {
  const acknowledged: Acknowledged[] = [];
  const stopping = new AbortController();
  let count = 0;
  const write = async (client: Store): Promise<void> => {
    while (!stopping.signal.aborted) {
      const key = `${prefix}${count}`;
      count += 1;
      const sentMs = performance.now();
      try {
        const revision = await put(client, key, 'x');
        acknowledged.push({ key, revision, sentMs, ackedMs: performance.now() });
      } catch (error) {
        if (!hasCode(error, 'unavailable', 'timeout')) throw error;
      }
    }
  };
  const writing = Promise.all(clients.map(write));
  const until = <T>(probe: () => T | undefined | false, what: string): Promise<T> =>
    // A writer that fails ends the wait.
    Promise.race([waitFor(probe, { what, deadlineMs: 60_000, intervalMs: 10 }), writing.then(() => never<T>())]);
  return {
    acknowledged,
    async untilAcknowledged(more) {
      const wanted = acknowledged.length + more;
      await until(() => acknowledged.length >= wanted, `${more} more writes`);
    },
    untilWrittenAfter: (ms) =>
      until(() => acknowledged.find(({ sentMs }) => sentMs >= ms)?.ackedMs, 'the first write after'),
    async stop() {
      stopping.abort();
      await writing;
    },
  };
}

function never<T>(): Promise<T> {
  return new Promise<T>(() => undefined);
}
