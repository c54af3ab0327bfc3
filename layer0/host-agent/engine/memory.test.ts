import { testEngine } from './conformance.ts';
import { createMemoryEngine } from './memory.ts';

testEngine('memory', async () => ({
  engine: createMemoryEngine({ cluster: 'conformance', images: ['base'] }),
  cluster: 'conformance',
  imageName: 'base',
  network: { type: 'bridge', name: 'flynn-test', dns: [] },
  close: async () => undefined,
}));
