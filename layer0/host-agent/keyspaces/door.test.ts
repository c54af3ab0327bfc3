import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import type { GatewayAnswer, GatewayCall } from '@flynn/store/etcd-gateway';
import { z } from 'zod';
import type { Container } from '../engine/engine.ts';
import { Door, type DoorRequest } from './door.ts';
import { base64, containerOf, keyspaceOf, keysOf, password } from './keyspaces-fixture.ts';
import { Refusal } from './refusal.ts';

const { at } = keysOf('/flynn/keyspaces/shop/');
const isRefused = (kind: Refusal['kind']) => (error: unknown) => error instanceof Refusal && error.kind === kind;

const askedSchema = z.looseObject({
  ID: z.string().optional(),
  TTL: z.string().optional(),
  count_only: z.boolean().optional(),
});

type Lease = { ttl: number; keys: string[] };

/** An etcd that knows leases, counts keys as told, and answers all else with what it was asked. */
class Etcd {
  readonly asked: GatewayCall[] = [];
  readonly leases = new Map<string, Lease>();
  keys = 0;
  /** What it answers in the place of all else. */
  failure: { status: number; body: object } | undefined;

  async ask(call: GatewayCall): Promise<GatewayAnswer> {
    this.asked.push(call);
    if (this.failure !== undefined) {
      const { status, body } = this.failure;
      return { status, body: Readable.from([JSON.stringify(body)]) };
    }
    return { status: 200, body: Readable.from([JSON.stringify(this.#answer(call))]) };
  }

  pathsAsked(): string[] {
    return this.asked.splice(0).map(({ path }) => path);
  }

  #answer({ path, body }: GatewayCall): object {
    const { ID = '', TTL = '', count_only: isCount = false } = askedSchema.parse(body);
    const { ttl = -1, keys = [] } = this.leases.get(ID) ?? {};
    if (path === '/v3/lease/grant') {
      const id = String(this.leases.size + 1);
      this.leases.set(id, { ttl: Number(TTL), keys: [] });
      return { ID: id, TTL };
    }
    if (path === '/v3/lease/timetolive') return { ID, TTL: String(ttl), keys };
    if (path === '/v3/lease/keepalive') return { result: { ID, ...(ttl > 0 ? { TTL: String(ttl) } : {}) } };
    return !isCount ? body : { count: String(this.keys) };
  }
}

function world(...containers: Container[]) {
  const etcd = new Etcd();
  const all = containers.length === 0 ? [containerOf(keyspaceOf('shop'), { address: '100.100.0.2' })] : containers;
  let nowMs = 0;
  const door = new Door({ gateway: etcd, containers: () => all, now: () => nowMs });
  const ask = (path: string, body: unknown, more: Partial<DoorRequest> = {}) =>
    door.answer({
      method: 'POST',
      path,
      address: '100.100.0.2',
      url: 'http://100.100.0.1:1116',
      authorization: undefined,
      readBody: async () => body,
      signal: new AbortController().signal,
      ...more,
    });
  const json = async (
    ...asked: Parameters<typeof ask>
  ): Promise<{ token?: string; ID?: string; result?: object; members?: object }> => {
    using answer = await ask(...asked);
    return JSON.parse(typeof answer.body === 'string' ? answer.body : await text(answer.body));
  };
  const authenticate = async (more: Partial<DoorRequest> = {}) => {
    const { token } = await json('/v3/auth/authenticate', { name: 'shop', password }, more);
    assert.ok(token);
    return token;
  };
  const pass = (ms: number) => void (nowMs += ms);
  return { etcd, door, all, ask, json, authenticate, pass };
}

test('nobody but a running container with a keyspace is let in, whatever it shows', async () => {
  const own = containerOf(keyspaceOf('shop'), { address: '100.100.0.2' });
  const bare = containerOf(undefined, { id: 'c2', address: '100.100.0.3' });
  const ended = containerOf(keyspaceOf('shop'), { id: 'c3', address: '100.100.0.4', state: 'exited' });
  const { ask, authenticate, etcd } = world(own, bare, ended);
  const authorization = await authenticate();
  for (const address of ['100.100.0.3', '100.100.0.4', '100.100.0.5', '']) {
    const none = ask('/v3/auth/authenticate', { name: 'shop', password }, { address });
    await assert.rejects(none, isRefused('outside'));
    await assert.rejects(ask('/v3/kv/range', { key: at('a') }, { address, authorization }), isRefused('outside'));
    await assert.rejects(ask('/version', undefined, { method: 'GET', address }), isRefused('outside'));
  }
  assert.deepEqual(etcd.pathsAsked(), []);
});

test('the address is not enough: it takes a token, and for that the name and the password', async () => {
  const { ask, authenticate, etcd } = world();
  for (const given of [
    { name: 'shop', password: 'another' },
    { name: 'another', password },
    { name: 'shop', password: '' },
    { name: 'shop', password: keyspaceOf('shop').keyDigest },
  ]) {
    await assert.rejects(ask('/v3/auth/authenticate', given), isRefused('password'));
  }
  await assert.rejects(ask('/v3/auth/authenticate', { name: 'shop' }), isRefused('invalid'));
  await assert.rejects(ask('/v3/kv/range', { key: at('a') }), isRefused('nobody'));
  await assert.rejects(ask('/v3/kv/range', { key: at('a') }, { authorization: 'x' }), isRefused('token'));
  assert.deepEqual(etcd.pathsAsked(), []);
  const authorization = await authenticate();
  using answer = await ask('/v3/kv/range', { key: at('a') }, { authorization });
  assert.equal(answer.status, 200);
});

test('a token is of the one job that got it, and ends with it', async () => {
  const [one, two] = [2, 3].map((last) =>
    containerOf(keyspaceOf('shop'), { id: `c${last}`, address: `100.100.0.${last}` }),
  );
  assert.ok(one && two);
  const { ask, authenticate, all, door } = world(one, two);
  const authorization = await authenticate();
  const asTwo = ask('/v3/kv/range', { key: at('a') }, { authorization, address: '100.100.0.3' });
  await assert.rejects(asTwo, isRefused('token'));
  all[0] = { ...one, state: 'exited' };
  door.containersChanged();
  all[0] = one;
  await assert.rejects(ask('/v3/kv/range', { key: at('a') }, { authorization }), isRefused('token'));
});

test('whoever uses its token keeps it, however many others are given out', async () => {
  const { ask, authenticate } = world();
  const [used, unused] = [await authenticate(), await authenticate()];
  for (let turn = 0; turn < 70; turn += 1) {
    await authenticate();
    using answer = await ask('/v3/kv/range', { key: at('a') }, { authorization: used });
    assert.equal(answer.status, 200);
  }
  await assert.rejects(ask('/v3/kv/range', { key: at('a') }, { authorization: unused }), isRefused('token'));
});

test('an unknown token costs no leader its lease: that is to be asked for again, and not to be given up', async () => {
  const { ask } = world();
  await assert.rejects(ask('/v3/lease/keepalive', { ID: '1' }, { authorization: 'x' }), isRefused('again'));
  await assert.rejects(ask('/v3/lease/keepalive', { ID: '1' }), isRefused('nobody'));
});

test('while etcd elects a leader a lease is asked for again, and not given up', async () => {
  const { etcd, ask, json, authenticate } = world();
  const authorization = await authenticate();
  const { ID } = await json('/v3/lease/grant', { TTL: 8 }, { authorization });
  etcd.failure = { status: 500, body: { error: { code: 2, message: 'not a primary lessor' } } };
  await assert.rejects(ask('/v3/lease/keepalive', { ID }, { authorization }), isRefused('away'));
  etcd.failure = undefined;
  assert.deepEqual((await json('/v3/lease/keepalive', { ID }, { authorization })).result, { ID, TTL: '8' });
});

test('where else to ask is told without a token: nowhere', async () => {
  const { json, etcd } = world();
  const { members } = await json('/v3/cluster/member/list', {});
  assert.deepEqual(members, [{ name: 'door', clientURLs: ['http://100.100.0.1:1116'] }]);
  assert.deepEqual(etcd.pathsAsked(), []);
});

test('of etcd there is no more than that', async () => {
  const { ask, authenticate, etcd } = world();
  const authorization = await authenticate();
  for (const path of ['/v3/lease/revoke', '/v3/lease/leases', '/v3/maintenance/snapshot', '/v3/cluster/member/add']) {
    await assert.rejects(ask(path, {}, { authorization }), isRefused('path'));
  }
  await assert.rejects(ask('/v3/kv/range', { key: at('a') }, { authorization, method: 'GET' }), isRefused('path'));
  assert.deepEqual(etcd.pathsAsked(), []);
});

test('a lease that was granted here is kept alive and attached without asking whose it is', async () => {
  const { json, ask, authenticate, etcd } = world();
  const authorization = await authenticate();
  const { ID = '' } = await json('/v3/lease/grant', { TTL: 30 }, { authorization });
  assert.deepEqual((await json('/v3/lease/keepalive', { ID }, { authorization })).result, { ID, TTL: '30' });
  using _put = await ask('/v3/kv/put', { key: at('a'), lease: ID }, { authorization });
  assert.deepEqual(etcd.pathsAsked(), ['/v3/lease/grant', '/v3/lease/keepalive', '/v3/kv/range', '/v3/kv/put']);
});

test('of a lease that is not known etcd is asked: it is ours by its keys alone', async () => {
  const { json, ask, authenticate, etcd } = world();
  const authorization = await authenticate();
  etcd.leases.set('10', { ttl: 30, keys: [at('a')] });
  etcd.leases.set('11', { ttl: 30, keys: [] });
  etcd.leases.set('12', { ttl: 30, keys: [at('a'), base64('/flynn/cell/hosts/h1')] });
  const ttlOf = async (ID: string) => (await json('/v3/lease/keepalive', { ID }, { authorization })).result;
  assert.deepEqual(await ttlOf('10'), { ID: '10', TTL: '30' });
  etcd.pathsAsked();
  for (const ID of ['11', '12', '13']) {
    assert.deepEqual(await ttlOf(ID), { header: {}, ID });
    const put = { key: at('a'), lease: ID };
    await assert.rejects(ask('/v3/kv/put', put, { authorization }), isRefused('lease'));
    await assert.rejects(ask('/v3/kv/txn', { failure: [{ request_put: put }] }, { authorization }), isRefused('lease'));
  }
  assert.deepEqual(new Set(etcd.pathsAsked()), new Set(['/v3/lease/timetolive']));
});

test('leases have their bounds: how long, and how many at once', async () => {
  const { ask, authenticate, pass } = world();
  const authorization = await authenticate();
  for (const TTL of [4, 601, '4', -1, 'x', undefined]) {
    await assert.rejects(ask('/v3/lease/grant', { TTL }, { authorization }), isRefused('invalid'));
  }
  await assert.rejects(ask('/v3/lease/grant', { TTL: 30, ID: '7' }, { authorization }), isRefused('invalid'));
  const grant = async () => (await ask('/v3/lease/grant', { TTL: 30 }, { authorization }))[Symbol.dispose]();
  for (let count = 0; count < 100; count += 1) await grant();
  await assert.rejects(grant(), isRefused('full'));
  pass(30_000);
  await grant();
});

test('a keyspace that is full takes no more keys, and does once there is room', async () => {
  const { ask, authenticate, etcd } = world();
  const authorization = await authenticate();
  const put = async () => (await ask('/v3/kv/put', { key: at('a') }, { authorization }))[Symbol.dispose]();
  etcd.keys = 999;
  await put();
  etcd.keys = 1_000;
  await assert.rejects(put(), isRefused('full'));
  using _gone = await ask('/v3/kv/deleterange', { key: at('a') }, { authorization });
  etcd.keys = 10;
  await put();
  etcd.pathsAsked();
  await put();
  assert.deepEqual(etcd.pathsAsked(), ['/v3/kv/put'], 'it is not counted each time');
});

test('who writes without end has to pause', async () => {
  const { ask, authenticate, pass } = world();
  const authorization = await authenticate();
  const value = Buffer.alloc(512 * 1024).toString('base64');
  const put = async () => (await ask('/v3/kv/put', { key: at('a'), value }, { authorization }))[Symbol.dispose]();
  for (let count = 0; count < 15; count += 1) await put();
  await assert.rejects(put(), isRefused('full'));
  pass(60_000);
  await put();
});

test('what a job may have open at once is bounded, and what failed is not open', async () => {
  const { ask, authenticate, etcd } = world();
  const authorization = await authenticate();
  const create_request = { key: at('a') };
  for (let count = 0; count < 40; count += 1) await assert.rejects(ask('/v3/watch', {}, { authorization }));
  const watches = [];
  for (let count = 0; count < 16; count += 1) {
    watches.push(await ask('/v3/watch', { create_request }, { authorization }));
  }
  await assert.rejects(ask('/v3/watch', { create_request }, { authorization }), isRefused('full'));
  watches.pop()?.[Symbol.dispose]();
  using _another = await ask('/v3/watch', { create_request }, { authorization });
  assert.ok(etcd.asked.every(({ isLasting }) => isLasting === true));
  for (const watch of watches) watch[Symbol.dispose]();
});

test('what is open ends with the job', async () => {
  const { ask, authenticate, etcd, all, door } = world();
  const authorization = await authenticate();
  using _watch = await ask('/v3/watch', { create_request: { key: at('a') } }, { authorization });
  const signal = etcd.asked.at(-1)?.signal;
  door.containersChanged();
  assert.equal(signal?.aborted, false);
  all.length = 0;
  door.containersChanged();
  assert.equal(signal?.aborted, true);
});

test('what may not be done twice is told to be so', async () => {
  const { ask, authenticate, etcd } = world();
  const authorization = await authenticate();
  const body = { key: at('a') };
  for (const [path, asked] of Object.entries({
    '/v3/kv/range': body,
    '/v3/kv/put': body,
    '/v3/kv/deleterange': body,
    '/v3/kv/txn': { success: [{ request_range: body }] },
  })) {
    using _answer = await ask(path, asked, { authorization });
  }
  const told = etcd.asked.map(({ path, isRepeatable }) => `${path} ${isRepeatable}`);
  assert.deepEqual(told, [
    '/v3/kv/range true',
    // How many keys there are.
    '/v3/kv/range true',
    '/v3/kv/put false',
    '/v3/kv/deleterange false',
    '/v3/kv/txn false',
  ]);
});

test('while etcd is away that is what is told', async () => {
  const { ask, authenticate, etcd } = world();
  const authorization = await authenticate();
  etcd.ask = async () => Promise.reject(new FlynnError('unavailable', 'etcd did not answer'));
  const failed = ask('/v3/kv/range', { key: at('a') }, { authorization });
  await assert.rejects(failed, (error) => error instanceof FlynnError && error.code === 'unavailable');
});
