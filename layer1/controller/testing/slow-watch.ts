/** A store in memory whose watches of some prefixes tell everything late, as those of a busy etcd may. */
import { pause } from '@flynn/kit/clock';
import { createMemoryStore } from '@flynn/store/memory';
import type { MemoryStore } from '@flynn/store/memory';

const lateMs = 200;

export function slowlyTold(...prefixes: readonly string[]): MemoryStore {
  const store = createMemoryStore();
  const watch = store.watch.bind(store);
  store.watch = async function* (prefix, options) {
    for await (const batch of watch(prefix, options)) {
      if (prefixes.includes(prefix)) await pause(lateMs, options.signal);
      yield batch;
    }
  };
  return store;
}
