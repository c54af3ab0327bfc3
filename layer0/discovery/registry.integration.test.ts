/** What discovery promises while etcd, its connection or an agent fails: against real etcd members. */
import { hasCode } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { startServer } from '@flynn/kit/http-server';
import { retry, waitFor } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import { startEtcdCluster } from '@flynn/store/etcd-cluster';
import { startEtcdMember } from '@flynn/store/etcd-member';
import type { EtcdMember } from '@flynn/store/etcd-member';
import { startTcpProxy } from '@flynn/store/tcp-proxy';
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { after, before, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { createDiscoveryClient } from './client.ts';
import { clientSubject, registrySubject } from './conformance-subjects.ts';
import { runConformance, summarize } from './conformance.ts';
import type { Registry } from './registry.ts';
import { discoveryHandlers } from './server.ts';
import { createRegistry } from './store-registry.ts';

const log = silentLogger();
const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const from = image === undefined ? {} : { image };
let member: EtcdMember;

before(async () => {
  member = await startEtcdMember(from);
});
after(() => member.stop());

async function open(endpoints: readonly string[], options: { ttlSeconds?: number } = {}) {
  const store = connectEtcd({ endpoints: [...endpoints], log });
  const registry = await createRegistry({ store, log, ...options });
  return {
    store,
    registry,
    [Symbol.asyncDispose]: async () => {
      await registry[Symbol.asyncDispose]();
      await store.close();
    },
  };
}

async function empty(): Promise<void> {
  await using store = connectEtcd({ endpoints: [member.endpoint], log });
  await store.transact({ then: [{ deletePrefix: '/' }] });
}

runConformance('the registry on etcd', async () => {
  await empty();
  const { registry, store } = await open([member.endpoint]);
  return registrySubject(registry, () => store.close());
});

runConformance('the HTTP client of a registry on etcd', async () => {
  await empty();
  const { registry, store } = await open([member.endpoint]);
  return clientSubject(registry, () => store.close());
});

/** Everything a reader hears of the service from now on, once it knows who another one knows: it hears of them a moment later. */
async function listen(registry: Registry, service: string, { knowing: other }: { knowing?: Registry } = {}) {
  const knows = () => isDeepStrictEqual(registry.instances(service), other?.instances(service) ?? []);
  if (other !== undefined) await waitFor(knows, { what: 'what the other one knows', deadlineMs: 30_000 });
  const stop = new AbortController();
  const seen: string[] = [];
  const reading = (async () => {
    for await (const event of registry.subscribe(service, { signal: stop.signal })) seen.push(summarize(event));
  })();
  await waitFor(() => seen.includes('current'), { what: 'the current set', deadlineMs: 30_000 });
  return { seen, [Symbol.asyncDispose]: () => (stop.abort(), reading) };
}

test('no instance is seen to go when etcd loses its leader, and news go on afterwards', async () => {
  await using cluster = await startEtcdCluster({ ...from, members: 3 });
  await using announcer = await open(cluster.endpoints, { ttlSeconds: 10 });
  await using observer = await open(cluster.endpoints);
  await announcer.registry.register({ service: 'web', id: 'a', address: 'h:1' });
  await announcer.registry.register({ service: 'web', id: 'heard', address: 'h:2' }, { ttlSeconds: 10 });
  await waitFor(() => observer.registry.instances('web').length === 2, { what: 'both', deadlineMs: 30_000 });
  await using heard = await listen(observer.registry, 'web');
  const before = heard.seen.length;
  const first = await cluster.leader();
  await first.kill();
  const next = await cluster.leader();
  assert.notEqual(next.endpoint, first.endpoint);
  // Two TTLs: whatever was not kept alive is gone by then. The heartbeat goes on, as a client's does.
  const untilMs = performance.now() + 20_000;
  await waitFor(
    async () => {
      await announcer.registry.register({ service: 'web', id: 'heard', address: 'h:2' }, { ttlSeconds: 10 });
      return performance.now() > untilMs;
    },
    { what: 'two TTLs', deadlineMs: 60_000, intervalMs: 500 },
  );
  assert.deepEqual(heard.seen.slice(before), []);
  await announcer.registry.register({ service: 'web', id: 'b', address: 'h:1' });
  await waitFor(() => heard.seen.includes('up b'), { what: 'news', deadlineMs: 60_000 });
});

test('no instance is seen to go when etcd cannot be reached for half the TTL', async () => {
  await empty();
  await using proxy = await startTcpProxy(member.port);
  await using announcer = await open([`http://127.0.0.1:${proxy.port}`], { ttlSeconds: 14 });
  await using observer = await open([member.endpoint]);
  await announcer.registry.register({ service: 'web', id: 'a', address: 'h:1' });
  await using heard = await listen(observer.registry, 'web', { knowing: announcer.registry });
  const before = heard.seen.length;
  proxy.cut();
  await new Promise((resolve) => setTimeout(resolve, 7_000));
  proxy.restore();
  await new Promise((resolve) => setTimeout(resolve, 8_000));
  await announcer.registry.setMeta('web', { data: 'a whole TTL later' });
  await waitFor(() => heard.seen.includes('meta "a whole TTL later"'), { what: 'the write', deadlineMs: 30_000 });
  assert.deepEqual(heard.seen.slice(before), ['meta "a whole TTL later"']);
});

test('no instance is seen to go when the only etcd loses power and comes back', async () => {
  await using own = await startEtcdMember(from);
  await using announcer = await open([own.endpoint], { ttlSeconds: 20 });
  await using observer = await open([own.endpoint]);
  const instance = await announcer.registry.register({ service: 'web', id: 'a', address: 'h:1' });
  await using heard = await listen(observer.registry, 'web', { knowing: announcer.registry });
  const before = heard.seen.length;
  await own.kill();
  await assert.rejects(announcer.registry.setMeta('web', { data: 'away' }), (error) =>
    hasCode(error, 'unavailable', 'timeout'),
  );
  assert.deepEqual(observer.registry.instances('web'), [instance]);
  await own.start();
  await retry(() => announcer.registry.setMeta('web', { data: 'back' }), { what: 'a write', deadlineMs: 60_000 });
  await waitFor(() => heard.seen.includes('meta "back"'), { what: 'the write', deadlineMs: 60_000 });
  // A write that was not answered is repeated, and may have been carried out before.
  assert.deepEqual([...new Set(heard.seen.slice(before))], ['meta "back"']);
  assert.deepEqual(announcer.registry.instances('web'), [instance]);
});

test('no instance is seen to go when the only etcd stands still for longer than any lease lasts', async () => {
  await using own = await startEtcdMember(from);
  await using announcer = await open([own.endpoint], { ttlSeconds: 5 });
  await using observer = await open([own.endpoint], { ttlSeconds: 5 });
  await announcer.registry.register({ service: 'web', id: 'a', address: 'h:1' });
  await observer.registry.register({ service: 'api', id: 'b', address: 'h:2' });
  const seen = () => observer.registry.instances('web')[0];
  const before = await waitFor(seen, { what: 'it', deadlineMs: 30_000 });
  await using heard = await listen(observer.registry, 'web');
  await own.freeze();
  await new Promise((resolve) => setTimeout(resolve, 8_000));
  await own.thaw();
  // Its lease has ended: what is there then was announced anew.
  await waitFor(() => (seen()?.createdRevision ?? 0) > before.createdRevision, {
    what: 'it to be announced anew',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  assert.deepEqual(
    heard.seen.filter((event) => event.startsWith('down')),
    [],
  );
});

test('a subscriber whose connection breaks while history is compacted away is told every true change', async () => {
  await empty();
  await using proxy = await startTcpProxy(member.port);
  await using announcer = await open([member.endpoint]);
  await using observer = await open([`http://127.0.0.1:${proxy.port}`]);
  for (const id of ['a', 'b']) await announcer.registry.register({ service: 'web', id, address: 'h:1' });
  await waitFor(() => observer.registry.instances('web').length === 2, { what: 'both', deadlineMs: 30_000 });
  await using heard = await listen(observer.registry, 'web');
  const before = heard.seen.length;
  proxy.cut();
  await announcer.registry.deregister('web', 'a');
  await announcer.registry.register({ service: 'web', id: 'c', address: 'h:1' });
  const { version } = await announcer.registry.setMeta('web', { data: 'late' });
  await announcer.store.compact(version);
  proxy.restore();
  await waitFor(() => heard.seen.includes('meta "late"'), { what: 'the last change', deadlineMs: 60_000 });
  await waitFor(() => heard.seen.length >= before + 4, { what: 'the others', deadlineMs: 30_000 });
  assert.deepEqual(heard.seen.slice(before).sort(), ['down a', 'leader b', 'meta "late"', 'up c']);
});

test('what an agent announced is gone within its TTL when the agent is killed, each within its own', async () => {
  await empty();
  await using observer = await open([member.endpoint]);
  const agent = spawn(
    process.execPath,
    [
      '--disable-warning=ExperimentalWarning',
      path.join(import.meta.dirname, 'cli.ts'),
      'serve',
      '--listen=127.0.0.1:0',
      `--etcd=${member.endpoint}`,
    ],
    { stdio: ['ignore', 'ignore', 'pipe'] },
  );
  const exited = once(agent, 'exit');
  try {
    let said = '';
    agent.stderr.setEncoding('utf8').on('data', (chunk: string) => (said += chunk));
    const url = await waitFor(() => /"url":"([^"]+)"/.exec(said)?.[1], { what: 'the agent', deadlineMs: 60_000 });
    await using client = createDiscoveryClient({ url });
    const stop = new AbortController();
    for (const [id, ttlSeconds] of [['short', 2] as const, ['long', 60] as const]) {
      await client.register({ service: 'web', id, address: 'h:1' }, { signal: stop.signal, ttlSeconds });
    }
    await waitFor(() => observer.registry.instances('web').length === 2, { what: 'both', deadlineMs: 30_000 });
    agent.kill('SIGKILL');
    await exited;
    const killedMs = performance.now();
    await waitFor(() => observer.registry.instances('web').length === 1, { what: 'the expiry', deadlineMs: 60_000 });
    // Of its own two seconds, not of the other's sixty.
    assert.ok(performance.now() - killedMs < 30_000, `it took ${performance.now() - killedMs} ms`);
    // Whoever renews it elsewhere within the 60 s was never away.
    assert.equal(observer.registry.instances('web')[0]?.id, 'long');
    stop.abort();
  } finally {
    agent.kill('SIGKILL');
  }
});

test('an instance that moved to another agent is not taken back by the one that no longer hears of it', async () => {
  await empty();
  await using one = await open([member.endpoint]);
  await using two = await open([member.endpoint]);
  const registration = { service: 'web', id: 'a', address: 'h:1' };
  const first = await one.registry.register(registration, { ttlSeconds: 6 });
  await using heard = await listen(two.registry, 'web', { knowing: one.registry });
  const before = heard.seen.length;
  const untilMs = performance.now() + 9_000;
  await waitFor(
    async () => {
      await two.registry.register(registration, { ttlSeconds: 6 });
      return performance.now() > untilMs;
    },
    { what: 'more than a TTL', deadlineMs: 60_000, intervalMs: 200 },
  );
  assert.deepEqual(heard.seen.slice(before), []);
  assert.deepEqual(two.registry.instances('web'), [first]);
});

test('an HTTP client that is gone is gone from discovery within its TTL, wherever one looks', async () => {
  await empty();
  await using here = await open([member.endpoint]);
  await using there = await open([member.endpoint]);
  const stop = new AbortController();
  const handlers = discoveryHandlers(here.registry, { signal: stop.signal });
  await using server = await startServer({ handlers, log, host: '127.0.0.1', port: 0, name: 'discovery' });
  await using heard = await listen(there.registry, 'web');
  const startedMs = performance.now();
  const put = await fetch(`${server.url}/services/web/instances/a`, {
    method: 'PUT',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ address: 'h:1', ttlSeconds: 5 }),
  });
  assert.equal(put.status, 200);
  await waitFor(() => heard.seen.includes('down a'), { what: 'its end', deadlineMs: 30_000, intervalMs: 10 });
  const tookMs = performance.now() - startedMs;
  assert.ok(tookMs > 4_900, `it took ${tookMs} ms`);
  assert.deepEqual(there.registry.instances('web'), []);
  stop.abort();
});
