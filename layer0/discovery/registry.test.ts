import { silentLogger } from '@flynn/kit/log';
import type { Logger } from '@flynn/kit/log';
import { startServer } from '@flynn/kit/http-server';
import { waitFor } from '@flynn/kit/retry';
import { freePort } from '@flynn/kit/testing-ports';
import { createMemoryStore } from '@flynn/store/memory';
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { z } from 'zod';
import { routes } from './api.ts';
import { createDiscoveryClient } from './client.ts';
import { summarize } from './conformance.ts';
import { discoveryHandlers } from './server.ts';
import { createRegistry, instanceKey } from './store-registry.ts';

const log = silentLogger();
const idsOf = (list: readonly { id: string }[]) => list.map(({ id }) => id);

/** A registry served over HTTP, with a client of it; `signal` lasts as long as they do. */
async function serving() {
  const stop = new AbortController();
  const store = createMemoryStore();
  const registry = await createRegistry({ store, log });
  const handlers = discoveryHandlers(registry, { signal: stop.signal });
  const server = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
  const client = createDiscoveryClient({ url: server.url });
  return {
    signal: stop.signal,
    registry,
    url: server.url,
    client,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await client.close();
      await server.close();
      await registry[Symbol.asyncDispose]();
      await store.close();
    },
  };
}

test('when the lease is lost every registration is announced again', async () => {
  let nowMs = 0;
  await using store = createMemoryStore({ now: () => nowMs });
  const own = store.connect();
  await using registry = await createRegistry({ store: own, log });
  await using observer = await createRegistry({ store: store.connect(), log });
  for (const id of ['a', 'b']) await registry.register({ service: 'web', id, address: `${id}:80` });
  await waitFor(() => observer.instances('web').length === 2, { what: 'both', deadlineMs: 30_000, intervalMs: 5 });
  own.disconnect();
  nowMs += 60_000;
  store.expireLeases();
  await waitFor(() => observer.instances('web').length === 0, {
    what: 'their expiry',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
  own.reconnect();
  await waitFor(() => observer.instances('web').length === 2, {
    what: 'both again',
    deadlineMs: 30_000,
    intervalMs: 5,
  });
});

test('a registration taken back while the lease was lost stays away', async () => {
  let nowMs = 0;
  await using store = createMemoryStore({ now: () => nowMs });
  const own = store.connect();
  await using registry = await createRegistry({ store: own, log });
  await registry.register({ service: 'web', id: 'a', address: 'a:80' });
  await registry.register({ service: 'web', id: 'b', address: 'b:80' });
  own.disconnect();
  await assert.rejects(registry.deregister('web', 'a'), { code: 'unavailable' });
  nowMs += 60_000;
  store.expireLeases();
  own.reconnect();
  await waitFor(async () => (await store.get(instanceKey('web', 'b'))) !== undefined, {
    what: 'b',
    deadlineMs: 30_000,
  });
  assert.equal(await store.get(instanceKey('web', 'a')), undefined);
});

test('a registry that ends leaves its instances to the next one for the length of the lease', async () => {
  await using store = createMemoryStore();
  const connection = store.connect();
  const first = await createRegistry({ store: connection, log, ttlSeconds: 30 });
  const { createdRevision } = await first.register({ service: 'web', id: 'a', address: 'a:80' });
  await first[Symbol.asyncDispose]();
  await connection.close();
  await using second = await createRegistry({ store, log, ttlSeconds: 30 });
  assert.deepEqual(idsOf(second.instances('web')), ['a']);
  const again = await second.register({ service: 'web', id: 'a', address: 'a:80' });
  assert.equal(again.createdRevision, createdRevision);
});

test('announcing the same again writes nothing', async () => {
  await using store = createMemoryStore();
  await using registry = await createRegistry({ store, log });
  await registry.register({ service: 'web', id: 'a', address: 'a:80', attributes: { x: '1' } });
  const before = await store.get(instanceKey('web', 'a'));
  await registry.register({ service: 'web', id: 'a', address: 'a:80', attributes: { x: '1' } });
  assert.equal((await store.get(instanceKey('web', 'a')))?.modRevision, before?.modRevision);
});

test('an instance announced over HTTP is gone when it is not announced again in time, and one that is, stays', async () => {
  await using discovery = await serving();
  const { registry, client, url } = discovery;
  const told: string[] = [];
  registry.onChange((_service, events) => void told.push(...events.map(summarize)));
  const put = (id: string) =>
    fetch(`${url}/services/web/instances/${id}`, {
      method: 'PUT',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ address: '10.0.0.1:80', ttlSeconds: 2 }),
    });
  assert.equal((await put('once')).status, 200);
  const leave = new AbortController();
  const { deregistered } = await client.register(
    { service: 'web', id: 'kept', address: '10.0.0.2:80' },
    { signal: leave.signal, ttlSeconds: 2 },
  );
  const isOver = () => told.includes('down once') && idsOf(registry.instances('web')).join() === 'kept';
  await waitFor(isOver, { what: 'the expiry', deadlineMs: 30_000 });
  assert.deepEqual(told.filter((event) => event.startsWith('up')).slice(0, 2), ['up once', 'up kept']);
  leave.abort();
  await deregistered;
  assert.deepEqual(registry.instances('web'), []);
});

test('a bad registration is refused with what to write instead', async () => {
  await using discovery = await serving();
  const { client, url, signal } = discovery;
  for (const registration of [
    { service: 'Web', id: 'a', address: 'a:80' },
    { service: 'web', id: 'a', address: 'nowhere' },
  ]) {
    await assert.rejects(client.register(registration, { signal }), { code: 'invalid' });
  }
  assert.equal((await fetch(`${url}/services/web/leader`)).status, 404);
});

test('a subscription survives a restart of the server, and tells only what changed meanwhile', async () => {
  const stop = new AbortController();
  await using store = createMemoryStore();
  await using registry = await createRegistry({ store, log });
  const serve = (port: number, signal: AbortSignal) =>
    startServer({
      handlers: discoveryHandlers(registry, { signal }),
      log,
      host: '127.0.0.1',
      port,
      name: 'discovery',
    });
  const firstStop = new AbortController();
  const first = await serve(await freePort(), firstStop.signal);
  await using client = createDiscoveryClient({ url: first.url });
  for (const id of ['a', 'b']) await registry.register({ service: 'web', id, address: `${id}:80` });

  const set = await client.openServiceSet('web', { signal: stop.signal });
  await set.ready;
  assert.deepEqual(idsOf(set.instances), ['a', 'b']);
  const lists: string[][] = [];
  set.onChange((instances) => lists.push(idsOf(instances)));
  const seen: string[] = [];
  const reading = (async () => {
    for await (const event of client.subscribe('web', { signal: stop.signal })) seen.push(summarize(event));
  })();
  await waitFor(() => seen.includes('current'), { what: 'the current set', deadlineMs: 30_000 });
  assert.equal(set.silentSinceMs, undefined);

  const brokeMs = Date.now();
  firstStop.abort();
  await first.close();
  const isSilent = () => (set.silentSinceMs ?? 0) >= brokeMs;
  await waitFor(isSilent, { what: 'the break to be known', deadlineMs: 30_000, intervalMs: 5 });
  await registry.deregister('web', 'a');
  await registry.register({ service: 'web', id: 'c', address: 'c:80' });
  const second = await serve(first.port, stop.signal);
  await waitFor(() => seen.filter((event) => event === 'current').length === 2, {
    what: 'the set again',
    deadlineMs: 60_000,
  });
  await waitFor(() => idsOf(set.instances).join() === 'b,c', { what: 'the set to follow', deadlineMs: 60_000 });
  assert.equal(set.silentSinceMs, undefined);
  assert.equal(set.leader?.id, 'b');
  stop.abort();
  await reading;
  assert.deepEqual(seen, ['up a', 'up b', 'leader a', 'current', 'up c', 'down a', 'leader b', 'current']);
  assert.deepEqual(lists.at(-1), ['b', 'c']);
  assert.ok(
    lists.every((list) => list.length > 0),
    'no moment without instances',
  );
  await second.close();
});

test('a set opened before discovery is there comes without instances, and gets them later', async () => {
  const stop = new AbortController();
  await using store = createMemoryStore();
  await using registry = await createRegistry({ store, log });
  await registry.register({ service: 'web', id: 'a', address: 'a:80' });
  const handlers = discoveryHandlers(registry, { signal: stop.signal });
  const port = await freePort();
  await using client = createDiscoveryClient({ url: `http://127.0.0.1:${port}` });
  const beforeMs = Date.now();
  const set = await client.openServiceSet('web', { signal: stop.signal });
  assert.deepEqual(set.instances, []);
  assert.ok((set.silentSinceMs ?? 0) >= beforeMs);
  await using server = await startServer({ handlers, log, host: '127.0.0.1', port, name: 'discovery' });
  await set.ready;
  assert.deepEqual(idsOf(set.instances), ['a']);
  assert.equal(server.port, port);
  stop.abort();
});

test('who leaves while their announcement is on its way has it taken back, whether it has arrived by then or not', async () => {
  for (const isLate of [false, true]) {
    await using store = createMemoryStore();
    await using registry = await createRegistry({ store, log });
    const stop = new AbortController();
    const [arrived, goesOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const handlers = discoveryHandlers(registry, { signal: stop.signal }).map(({ route, run }) => ({
      route,
      async run(call: Parameters<typeof run>[0]) {
        if (route !== routes.register) return run(call);
        const answer = isLate ? undefined : await run(call);
        arrived.resolve();
        await goesOn.promise;
        return isLate ? run(call) : answer;
      },
    }));
    await using server = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
    await using client = createDiscoveryClient({ url: server.url });
    const leaving = new AbortController();
    const announced = client.register({ service: 'web', id: 'a', address: 'a:80' }, { signal: leaving.signal });
    await arrived.promise;
    leaving.abort();
    // Within which a word that takes it back, sent at once, would be there first.
    setTimeout(goesOn.resolve, 300);
    await assert.rejects(announced, { code: 'cancelled' });
    await goesOn.promise;
    assert.deepEqual(registry.instances('web'), [], isLate ? 'it arrived late' : 'its answer came late');
    stop.abort();
  }
});

test('who leaves before discovery was ever there has nothing to take back', async () => {
  await using client = createDiscoveryClient({ url: `http://127.0.0.1:${await freePort()}` });
  const leaving = new AbortController();
  const said: string[] = [];
  const noting = { ...log, warn: (_about: unknown, text: string) => void said.push(text) } as Logger;
  const options = { signal: leaving.signal, log: noting };
  const announced = client.register({ service: 'web', id: 'a', address: 'a:80' }, options);
  leaving.abort();
  await assert.rejects(announced, { code: 'cancelled' });
  assert.deepEqual(said, [], 'it tried to');
});

test('resolving waits for an instance with the attributes, and says when there is none', async () => {
  await using discovery = await serving();
  const { registry, client } = discovery;
  await registry.register({ service: 'db', id: 'a', address: 'a:1', attributes: { role: 'replica' } });
  const waiting = client.resolve('db', { where: { role: 'primary' }, deadlineMs: 30_000 });
  await registry.register({ service: 'db', id: 'b', address: 'b:1', attributes: { role: 'primary' } });
  assert.equal((await waiting).id, 'b');
  await assert.rejects(client.resolve('nobody', { deadlineMs: 200 }), { code: 'unavailable' });
});

test('an instance taken back while the store was away for a moment goes when it is back', async () => {
  await using store = createMemoryStore();
  const own = store.connect();
  await using registry = await createRegistry({ store: own, log });
  await registry.register({ service: 'web', id: 'a', address: 'a:80' });
  own.disconnect();
  await assert.rejects(registry.deregister('web', 'a'), { code: 'unavailable' });
  own.reconnect();
  await waitFor(async () => (await store.get(instanceKey('web', 'a'))) === undefined, {
    what: 'it to go although the lease lives on',
    deadlineMs: 30_000,
  });
});

test('however often an announcement failed while the store was away, it is written once when it is back', async () => {
  await using store = createMemoryStore();
  const own = store.connect();
  await using registry = await createRegistry({ store: own, log });
  await registry.register({ service: 'web', id: 'b', address: 'b:80' });
  own.disconnect();
  for (let i = 0; i < 40; i += 1) {
    await assert.rejects(registry.register({ service: 'web', id: 'a', address: 'a:80' }), { code: 'unavailable' });
  }
  own.reconnect();
  await waitFor(() => registry.instances('web').length === 2, { what: 'both', deadlineMs: 60_000 });
  await registry.deregister('web', 'b');
  const entry = await store.get(instanceKey('web', 'a'));
  assert.equal(entry?.createRevision, entry?.modRevision, 'it was written more than once');
});

test('a changed announcement that did not get through is not taken for done when it is repeated', async () => {
  await using store = createMemoryStore();
  const own = store.connect();
  await using registry = await createRegistry({ store: own, log });
  await registry.register({ service: 'web', id: 'a', address: 'old:80' });
  own.disconnect();
  const again = () => registry.register({ service: 'web', id: 'a', address: 'new:80' });
  await assert.rejects(again(), { code: 'unavailable' });
  await assert.rejects(again(), { code: 'unavailable' });
  own.reconnect();
  await waitFor(() => registry.instances('web')[0]?.address === 'new:80', { what: 'the change', deadlineMs: 30_000 });
});

test('an instance may change its TTL, and lives for the last one when its process is gone', async () => {
  let nowMs = 0;
  await using store = createMemoryStore({ now: () => nowMs });
  const own = store.connect();
  await using registry = await createRegistry({ store: own, log });
  await using observer = await createRegistry({ store: store.connect(), log });
  const registration = { service: 'web', id: 'a', address: 'a:80' };
  const first = await registry.register(registration, { ttlSeconds: 5 });
  const second = await registry.register(registration, { ttlSeconds: 300 });
  assert.deepEqual(second, first);
  own.disconnect();
  nowMs += 10_000;
  store.expireLeases();
  assert.deepEqual(idsOf((await store.list('/')).entries.map(({ key }) => ({ id: key }))), [instanceKey('web', 'a')]);
  nowMs += 300_000;
  store.expireLeases();
  await waitFor(() => observer.instances('web').length === 0, { what: 'its end', deadlineMs: 30_000, intervalMs: 5 });
});

test('conditions on attributes are of the query, and others are refused', async () => {
  await using discovery = await serving();
  const { registry, url } = discovery;
  await registry.register({ service: 'web', id: 'a', address: 'a:80', attributes: { zone: 'a', role: 'x' } });
  await registry.register({ service: 'web', id: 'b', address: 'b:80', attributes: { zone: 'a' } });
  const ask = async (query: string): Promise<unknown> => (await fetch(`${url}/services/web/instances${query}`)).json();
  const ids = async (query: string) => idsOf(z.array(z.object({ id: z.string() })).parse(await ask(query)));
  assert.deepEqual(await ids('?attr.zone=a'), ['a', 'b']);
  assert.deepEqual(await ids('?attr.zone=a&attr.role=x'), ['a']);
  assert.deepEqual(await ids('?attr.zone=b'), []);
  assert.equal((await fetch(`${url}/services/web/instances?zone=a`)).status, 400);
});

test('an attribute is one line: it may end up in a configuration file', async () => {
  await using registry = await createRegistry({ store: createMemoryStore(), log });
  const registration = { service: 'web', id: 'a', address: 'a:80', attributes: { zone: 'a\nbind *:1' } };
  await assert.rejects(registry.register(registration), { code: 'invalid', message: /line breaks/ });
});
