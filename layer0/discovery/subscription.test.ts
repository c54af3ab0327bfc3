import { silentLogger } from '@flynn/kit/log';
import * as fc from 'fast-check';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { DiscoveryEvent } from './api.ts';
import { summarize } from './conformance.ts';
import { createMemoryRegistry } from './memory-registry.ts';

const log = silentLogger();
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('a reader that stands still keeps no other from its events, and is told the difference when it goes on', async () => {
  const stop = new AbortController();
  await using registry = createMemoryRegistry({ log, queueLimit: 10 });
  await registry.register({ service: 'web', id: 'first', address: 'a:1' });
  const slow = registry.subscribe('web', { signal: stop.signal })[Symbol.asyncIterator]();
  const next = async () => {
    const { value } = await slow.next();
    return value === undefined ? 'end' : summarize(value);
  };
  assert.deepEqual([await next(), await next(), await next()], ['up first', 'leader first', 'current']);

  const seen: string[] = [];
  const quick = (async () => {
    for await (const event of registry.subscribe('web', { signal: stop.signal })) seen.push(summarize(event));
  })();
  for (let n = 0; n < 50; n += 1) {
    await registry.register({ service: 'web', id: 'busy', address: `a:${n}` });
    await settle();
  }
  await registry.deregister('web', 'first');
  await settle();
  assert.equal(seen.length, 3 + 50 + 2, 'the quick reader has everything, one by one');

  assert.deepEqual(
    [await next(), await next(), await next(), await next(), await next()],
    ['lagged', 'up busy', 'down first', 'leader busy', 'current'],
  );
  await registry.register({ service: 'web', id: 'late', address: 'a:1' });
  assert.equal(await next(), 'up late');
  stop.abort();
  assert.equal(await next(), 'end');
  await quick;
});

test('however often a reader lags, what it was told adds up to what is', async () => {
  const step = fc.record({
    id: fc.constantFrom('a', 'b', 'c'),
    port: fc.option(fc.integer({ min: 1, max: 3 }), { nil: undefined }),
    isRead: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 40 }), async (steps) => {
      const stop = new AbortController();
      await using registry = createMemoryRegistry({ log, queueLimit: 3 });
      const events = registry.subscribeAll({ signal: stop.signal })[Symbol.asyncIterator]();
      const told = new Map<string, string>();
      let leader: string | undefined;
      const take = (event: DiscoveryEvent) => {
        if (event.event === 'up' || event.event === 'update') told.set(event.instance.id, event.instance.address);
        if (event.event === 'down') assert.ok(told.delete(event.instance.id), 'down of what was never up');
        if (event.event === 'leader') leader = event.instance?.id;
      };
      await events.next();
      for (const { id, port, isRead } of steps) {
        if (port === undefined) await registry.deregister('web', id);
        else await registry.register({ service: 'web', id, address: `h:${port}` });
        // So that there is something to read for certain.
        await registry.setMeta('web', { data: null });
        if (isRead) take((await events.next()).value ?? assert.fail());
      }
      stop.abort();
      for await (const event of { [Symbol.asyncIterator]: () => events }) take(event);
      assert.deepEqual(told, new Map(registry.instances('web').map(({ id, address }) => [id, address])));
      assert.equal(leader, registry.leader('web')?.id);
    }),
    { numRuns: 200 },
  );
});

test('a listener that fails keeps the change from nobody', async () => {
  await using registry = createMemoryRegistry({ log });
  const seen: string[] = [];
  registry.onChange(() => {
    throw new Error('mine');
  });
  const off = registry.onChange((service, events) =>
    seen.push(...events.map((event) => `${service} ${summarize(event)}`)),
  );
  await registry.register({ service: 'web', id: 'a', address: 'a:1' });
  off();
  await registry.deregister('web', 'a');
  assert.deepEqual(seen, ['web up a', 'web leader a']);
});
