/** A store in the place of another, some of whose calls are others. */
import type { Store } from './store.ts';

/** The store, but for what is given. */
export function storeWith(store: Store, own: Partial<Store>): Store {
  return {
    get: (...args) => store.get(...args),
    list: (...args) => store.list(...args),
    transact: (...args) => store.transact(...args),
    watch: (...args) => store.watch(...args),
    grantLease: (...args) => store.grantLease(...args),
    compact: (...args) => store.compact(...args),
    close: () => store.close(),
    [Symbol.asyncDispose]: () => store[Symbol.asyncDispose](),
    ...own,
  };
}
