/** For tests of races: what comes between somebody's reading and their writing. */
import type { Store } from '@flynn/store/store';

/** Once, right before the first write that has it. */
export function beforeWrite(store: Store, text: string, act: () => Promise<unknown>): void {
  const transact = store.transact.bind(store);
  store.transact = async (transaction, options) => {
    if (!JSON.stringify(transaction.then).includes(text)) return transact(transaction, options);
    store.transact = transact;
    await act();
    return transact(transaction, options);
  };
}
