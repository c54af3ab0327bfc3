import assert from 'node:assert/strict';
import { test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { createMemoryStore } from '@flynn/store/memory';
import { summarize } from './conformance.ts';
import { Standstill } from './standstill.ts';
import { createRegistry, instanceKey } from './store-registry.ts';

const log = silentLogger();
const idsOf = (list: readonly { id: string }[]) => list.map(({ id }) => id);

test('a store that answers no renewal for long stands still, and has just done so for a while after', () => {
  let nowMs = 0;
  let renewedMs: number | undefined;
  const standstill = new Standstill({ renewedMs: () => renewedMs, silentMs: 5_000, lastsMs: 3_000, now: () => nowMs });
  const at = (ms: number): boolean => {
    nowMs = ms;
    return standstill.isRecent;
  };
  // Nobody asks it for anything.
  assert.equal(at(60_000), false);
  renewedMs = 60_000;
  assert.equal(at(64_999), false);
  assert.equal(at(65_000), true);
  assert.equal(at(70_000), true);
  renewedMs = 70_500;
  assert.equal(at(71_000), true);
  renewedMs = 72_900;
  assert.equal(at(73_000), false);
});

/** Two registries on one store that stands still for both. */
async function standingStill() {
  let nowMs = 0;
  const now = () => nowMs;
  const store = createMemoryStore({ now });
  const connections = [store.connect(), store.connect()] as const;
  const here = await createRegistry({ store: connections[0], log, now });
  const there = await createRegistry({ store: connections[1], log, now });
  await here.register({ service: 'api', id: 'own', address: 'own:80' });
  for (const id of ['a', 'b']) await there.register({ service: 'web', id, address: `${id}:80` });
  await waitFor(() => here.instances('web').length === 2, { what: 'both', deadlineMs: 30_000, intervalMs: 5 });
  const events: string[] = [];
  here.onChange((_service, changes) => void events.push(...changes.map(summarize)));
  return {
    store,
    here,
    there,
    events,
    stand() {
      for (const connection of connections) connection.disconnect();
      nowMs += 60_000;
      store.expireLeases();
    },
    goOn() {
      for (const connection of connections) connection.reconnect();
    },
    async [Symbol.asyncDispose]() {
      await here[Symbol.asyncDispose]();
      await there[Symbol.asyncDispose]();
      await store.close();
    },
  };
}

test('what is announced anew after the store stood still was never away', async () => {
  await using both = await standingStill();
  const { store, here, events } = both;
  both.stand();
  both.goOn();
  for (const id of ['a', 'b']) {
    await waitFor(async () => (await store.get(instanceKey('web', id))) !== undefined, {
      what: id,
      deadlineMs: 30_000,
      intervalMs: 5,
    });
  }
  const { revision } = await store.transact({ then: [{ put: '/flynn/discovery/meta/mark', value: '{"data":1}' }] });
  await waitFor(() => here.meta('mark')?.version === revision, { what: 'the mark', deadlineMs: 30_000, intervalMs: 5 });
  assert.deepEqual(
    events.filter((event) => event.startsWith('down')),
    [],
  );
  assert.deepEqual(idsOf(here.instances('web')).sort(), ['a', 'b']);
});

test('what is not announced anew after the store stood still is gone a little later, and what is taken back at once', async () => {
  await using both = await standingStill();
  const { here, there } = both;
  both.stand();
  await assert.rejects(there.deregister('web', 'a'), { code: 'unavailable' });
  await assert.rejects(here.deregister('api', 'own'), { code: 'unavailable' });
  both.goOn();
  await here.deregister('api', 'own');
  assert.deepEqual(idsOf(here.instances('api')), []);
  await waitFor(() => here.instances('web').length === 1, { what: 'its end', deadlineMs: 60_000, intervalMs: 20 });
  assert.deepEqual(idsOf(here.instances('web')), ['b']);
});
