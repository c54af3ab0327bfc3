/**
 * A request that changes something, while it does. Whatever it writes to the store carries the trail's entry in the same
 * transaction: there is no change without its entry, not even when this process dies between the two.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { storeWith } from '@flynn/store/store-with';
import type { Compare, Operation, Revision, Store, Transaction, TransactionResult } from '@flynn/store/store';

/** What a mutation adds to a transaction of its request, and what it hears of it. */
export interface Mutation {
  addTo(transaction: Transaction): { compare: readonly Compare[]; then: readonly Operation[] };
  onCommitted(transaction: Transaction, revision: Revision): void;
}

const current = new AsyncLocalStorage<{ mutation: Mutation; last: Promise<unknown> } | undefined>();

/** Everything that `act` writes through a recording store belongs to the mutation. */
export function during<T>(mutation: Mutation, act: () => Promise<T>): Promise<T> {
  return current.run({ mutation, last: Promise.resolve() }, act);
}

/** What `act` writes is a note of the platform's own: were it the mutation's, a request that fails could not be repeated. */
export function beside<T>(act: () => Promise<T>): Promise<T> {
  return current.run(undefined, act);
}

/** The same store; transactions made during a mutation say so. */
export function recordingStore(store: Store): Store {
  return storeWith(store, {
    transact(transaction, options) {
      const here = current.getStore();
      if (here === undefined || !isWriting(transaction)) return store.transact(transaction, options);
      const next = here.last.then(() => commit(here.mutation, transaction));
      // One after the other: each builds on what the one before has written of the mutation itself. Who asked for that one
      // hears of its failure.
      here.last = next.catch(() => {});
      return next;

      async function commit(mutation: Mutation, own: Transaction): Promise<TransactionResult> {
        const { compare, then } = mutation.addTo(own);
        const whole = { ...own, compare: [...(own.compare ?? []), ...compare], then: [...own.then, ...then] };
        const result = await store.transact(whole, options);
        if (result.succeeded) mutation.onCommitted(own, result.revision);
        return result;
      }
    },
  });
}

function isWriting({ then }: Transaction): boolean {
  return then.some((operation) => 'put' in operation || 'delete' in operation || 'deletePrefix' in operation);
}
