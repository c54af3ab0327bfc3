import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { withDeadline } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { RestoredError } from '@flynn/store/store';
import { resourceConformance } from './conformance.ts';
import { serviceOn, shelf } from './conformance-write.ts';
import { shelfType } from './demo.ts';

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

test('after a restore an open watch ends with a conflict, and a new one has the restored objects and no others', async () => {
  await using store = createMemoryStore();
  const service = serviceOn(store);
  const { revision } = await service.create(shelfType, { ...shelf('old'), id: 'old' });
  const backup = store.save();
  const events = service.watch(shelfType, { after: revision, signal: withDeadline(60_000) });
  await service.create(shelfType, { ...shelf('void'), id: 'void' });
  assert.equal((await events.next()).value?.type, 'put');
  store.restore(backup);
  await assert.rejects(events.next(), (error) => error instanceof RestoredError && hasCode(error, 'conflict'));
  const again = service.watch(shelfType, { signal: withDeadline(60_000) });
  const told = [(await again.next()).value, (await again.next()).value];
  assert.deepEqual(
    told.map((event) => (event?.type === 'put' ? event.resource.id : event?.type)),
    ['old', 'current'],
  );
  await again.return();
});
