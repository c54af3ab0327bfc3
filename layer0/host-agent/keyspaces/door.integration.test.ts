import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { silentLogger } from '@flynn/kit/log';
import { waitFor } from '@flynn/kit/retry';
import { connectEtcd } from '@flynn/store/etcd';
import type { EtcdClient } from '@flynn/store/etcd';
import { type EtcdCluster, startEtcdCluster } from '@flynn/store/etcd-cluster';
import { EtcdGateway } from '@flynn/store/etcd-gateway';
import { z } from 'zod';
import { Door } from './door.ts';
import { containerOf, base64, keyspaceOf, keysOf, password } from './keyspaces-fixture.ts';
import { keyspacePrefix, removeKeyspace } from './keyspace.ts';
import { type DoorServer, serveDoor } from './server.ts';

const image = process.env['FLYNN_TEST_ETCD_IMAGE'];
const prefix = keyspacePrefix('shop-db');
const { at, below } = keysOf(prefix);

/** What a driver goes by, of all kinds of answers. */
const answerSchema = z.looseObject({
  error: z.unknown().optional(),
  code: z.number().optional(),
  token: z.string().default(''),
  ID: z.string().default(''),
  succeeded: z.boolean().default(false),
  header: z.looseObject({ revision: z.string().optional() }).default({}),
  kvs: z.array(z.looseObject({ key: z.string(), lease: z.string().optional() })).default([]),
  result: z
    .looseObject({
      TTL: z.string().optional(),
      created: z.boolean().optional(),
      events: z.array(z.unknown()).default([]),
    })
    .optional(),
});
type Answer = z.output<typeof answerSchema>;

let cluster: EtcdCluster;
let store: EtcdClient;
let gateway: EtcdGateway;
let door: DoorServer;
let token = '';

before(async () => {
  cluster = await startEtcdCluster({ members: 3, tls: true, ...(image === undefined ? {} : { image }) });
  const { endpoints, tls } = cluster;
  store = connectEtcd({ endpoints, log: silentLogger(), ...(tls === undefined ? {} : { tls }) });
  gateway = new EtcdGateway({ endpoints: () => endpoints, tls });
  door = await openDoor();
  token = await authenticate(door);
});

after(async () => {
  await door[Symbol.asyncDispose]();
  gateway[Symbol.dispose]();
  await store.close();
  await cluster.stop();
});

/** As an agent that has just been started opens it. */
function openDoor(etcd: EtcdGateway = gateway): Promise<DoorServer> {
  const containers = [containerOf(keyspaceOf('shop-db'))];
  const opened = new Door({ gateway: etcd, containers: () => containers, now: () => performance.now() });
  return serveDoor({ door: opened, host: '127.0.0.1', port: 0, log: silentLogger() });
}

function post(path: string, body: object, options: { at?: DoorServer; token?: string; signal?: AbortSignal } = {}) {
  return fetch(`http://127.0.0.1:${(options.at ?? door).port}/v3${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: options.token ?? token },
    body: JSON.stringify(body),
    signal: options.signal ?? AbortSignal.timeout(20_000),
  });
}

async function ask(...asked: Parameters<typeof post>): Promise<Answer> {
  return answerSchema.parse(await (await post(...asked)).json());
}

async function authenticate(where: DoorServer): Promise<string> {
  return (await ask('/auth/authenticate', { name: 'shop-db', password }, { at: where })).token;
}

async function grant(ttlSeconds: number): Promise<string> {
  return (await ask('/lease/grant', { TTL: ttlSeconds })).ID;
}

/** Messages one by one, until it is returned from. */
async function* watch(body: object, options: Parameters<typeof post>[2]): AsyncGenerator<Answer> {
  const { body: stream } = await post('/watch', body, options);
  assert.ok(stream);
  let rest = '';
  for await (const chunk of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) yield answerSchema.parse(JSON.parse(line));
  }
}

async function next(messages: AsyncGenerator<Answer>): Promise<Answer> {
  const { value, done } = await messages.next();
  assert.ok(done !== true, 'the watch ended');
  return value;
}

test('a leader is elected, seen, kept and lost as with etcd itself', async () => {
  const lease = await grant(12);
  const leader = { key: at('pg/leader'), value: base64('one'), lease };
  const ifNobody = {
    compare: [{ key: leader.key, target: 'CREATE', create_revision: '0' }],
    success: [{ request_put: leader }],
  };
  const ending = new AbortController();
  const first = await ask('/kv/range', { ...below('pg/'), serializable: true });
  const startRevision = Number(first.header.revision) + 1;
  const messages = watch(
    { create_request: { ...below('pg/'), start_revision: startRevision, filters: [] } },
    { signal: ending.signal },
  );
  assert.equal((await next(messages)).result?.created, true);

  assert.equal((await ask('/kv/txn', ifNobody)).succeeded, true);
  assert.equal((await ask('/kv/txn', ifNobody)).succeeded, false, 'there is one already');
  assert.equal((await next(messages)).result?.events.length, 1);
  assert.deepEqual(
    (await ask('/kv/range', { ...below('pg/'), serializable: false })).kvs.map(({ key, lease: of }) => [key, of]),
    [[leader.key, lease]],
  );
  assert.equal((await ask('/lease/keepalive', { ID: lease })).result?.TTL, '12');

  // Nobody keeps it alive any more.
  const lost = await next(messages);
  assert.match(JSON.stringify(lost.result?.events), /"type":"DELETE"/);
  assert.equal((await ask('/lease/keepalive', { ID: lease })).result?.TTL, undefined, 'so that another is made');
  assert.equal((await ask('/kv/put', leader)).error, 'etcdserver: requested lease not found');
  ending.abort();
});

test('as Patroni updates its leader: the same one with a new lease, by a transaction within the failure of another', async () => {
  const lease = await grant(60);
  const put = { request_put: { key: at('nested/leader'), value: base64('one'), lease } };
  const isMine = { key: put.request_put.key, target: 'VALUE', value: put.request_put.value };
  const isNobodys = { key: put.request_put.key, target: 'CREATE', create_revision: '0' };
  const update = {
    compare: [isMine],
    success: [put],
    failure: [{ request_txn: { compare: [isNobodys], success: [put] } }],
  };
  const made = await post('/kv/txn', update);
  assert.match(await made.text(), /"response_txn":\{[^}]*\},?[^]*"succeeded":true/);
  assert.equal((await ask('/kv/txn', update)).succeeded, true);
  const deletion = { compare: [isMine], success: [{ request_delete_range: { key: isMine.key } }] };
  assert.equal((await ask('/kv/txn', deletion)).succeeded, true);
  assert.equal((await store.list(`${prefix}nested/`)).entries.length, 0);
});

test('after a restart of the agent tokens are void, and leases with keys go on', async () => {
  const [held, bare] = [await grant(60), await grant(60)];
  await ask('/kv/put', { key: at('members/one'), value: base64('{}'), lease: held });
  await using again = await openDoor();
  const keepAlive = (id: string, shown: string) => ask('/lease/keepalive', { ID: id }, { at: again, token: shown });
  assert.equal((await keepAlive(held, token)).code, 9);
  assert.equal((await ask('/kv/range', { key: at('members/one') }, { at: again })).code, 16);
  const renewed = await authenticate(again);
  assert.equal((await keepAlive(held, renewed)).result?.TTL, '60');
  assert.equal((await keepAlive(bare, renewed)).result?.TTL, undefined, 'it may be anybody’s');
});

test('a lease of the platform is not kept alive, nor attached', async () => {
  const theirs = await store.grantLease({ ttlSeconds: 60 });
  await store.transact({ then: [{ put: '/flynn/cell/hosts/h1', value: '{}', lease: theirs.id }] });
  const put = { key: at('members/two'), value: base64('{}'), lease: theirs.id };
  assert.equal((await ask('/kv/put', put)).error, 'etcdserver: requested lease not found');
  assert.equal((await ask('/lease/keepalive', { ID: theirs.id })).result?.TTL, undefined);
  // With a key of its own as well it is theirs still.
  await store.transact({ then: [{ put: `${prefix}members/three`, value: '{}', lease: theirs.id }] });
  assert.equal((await ask('/kv/put', put)).error, 'etcdserver: requested lease not found');
  await theirs.revoke();
});

test('the keys of others are neither read, nor written, nor watched', async () => {
  await store.transact({ then: [{ put: '/flynn/cell/hosts/h2', value: '{}' }] });
  const outside = base64('/flynn/cell/hosts/h2');
  for (const [path, body] of [
    ['/kv/range', { key: outside }],
    ['/kv/range', { key: at(''), range_end: base64('\0') }],
    ['/kv/put', { key: outside, value: base64('x') }],
    ['/kv/deleterange', { key: base64('/flynn/'), range_end: base64('/flynn0') }],
    ['/watch', { create_request: { key: outside } }],
  ] as const) {
    assert.deepEqual({ path, code: (await ask(path, body)).code }, { path, code: 7 });
  }
  assert.equal((await store.get('/flynn/cell/hosts/h2'))?.value, '{}');
});

test('a keyspace that is removed leaves no key, and its neighbours theirs', async () => {
  await ask('/kv/put', { key: at('config'), value: base64('{}') });
  await store.transact({ then: [{ put: `${keyspacePrefix('shop-db2')}config`, value: '{}' }] });
  await removeKeyspace(store, 'shop-db', { signal: AbortSignal.timeout(10_000) });
  const { entries } = await store.list('/flynn/keyspaces/');
  assert.deepEqual(
    entries.map(({ key }) => key),
    [`${keyspacePrefix('shop-db2')}config`],
  );
});

test('a member that hangs costs neither leases nor reads, breaks the watch that it served, and writes go on without it', async () => {
  const { endpoints, tls, members } = cluster;
  const [serving] = members;
  assert.ok(serving);
  // Whose first turn is the first member's.
  using etcd = new EtcdGateway({ endpoints: () => endpoints, tls, timeoutMs: 15_000 });
  await using own = await openDoor(etcd);
  const shown = { at: own, token: await authenticate(own) };
  const lease = (await ask('/lease/grant', { TTL: 120 }, shown)).ID;
  const messages = watch({ create_request: below('config') }, { ...shown, signal: AbortSignal.timeout(120_000) });
  assert.equal((await next(messages)).result?.created, true);
  await serving.freeze();
  try {
    // It may have led: until the others have elected one of them nobody keeps a lease.
    const isKept = async () => (await ask('/lease/keepalive', { ID: lease }, shown)).result?.TTL === '120';
    await waitFor(isKept, { what: 'the lease to be kept', deadlineMs: 60_000 });
    await assert.rejects(next(messages), 'nobody waits for what it will not tell');
    const isWritten = async () =>
      (await ask('/kv/put', { key: at('status'), value: base64('1') }, shown)).error === undefined;
    await waitFor(isWritten, { what: 'a key to be written', deadlineMs: 60_000 });
  } finally {
    await serving.thaw();
  }
});
