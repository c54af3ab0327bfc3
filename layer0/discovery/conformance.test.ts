import { silentLogger } from '@flynn/kit/log';
import { createMemoryStore } from '@flynn/store/memory';
import { clientSubject, registrySubject } from './conformance-subjects.ts';
import { runConformance } from './conformance.ts';
import { createMemoryRegistry } from './memory-registry.ts';
import { createRegistry } from './store-registry.ts';

const log = silentLogger();

runConformance('the registry in memory', async () => registrySubject(createMemoryRegistry({ log }), async () => {}));

runConformance('the registry on a store', async () => {
  const store = createMemoryStore();
  return registrySubject(await createRegistry({ store, log }), () => store.close());
});

runConformance('the HTTP client', () => clientSubject(createMemoryRegistry({ log })));
