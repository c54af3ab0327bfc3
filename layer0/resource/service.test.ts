import { createMemoryStore } from '@flynn/store/memory';
import { resourceConformance } from './conformance.ts';

resourceConformance('the memory store', async () => {
  const store = createMemoryStore();
  return {
    store,
    peer: store.connect(),
    async disconnect() {
      store.disconnect();
      return async () => store.reconnect();
    },
    [Symbol.asyncDispose]: () => store.close(),
  };
});
