import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Instance } from '@flynn/discovery/api';
import type { DiscoveryClient } from '@flynn/discovery/client';
import { silentLogger } from '@flynn/kit/log';
import { Backends } from './backends.ts';

const never = new AbortController().signal;

/** Backends of one service, and how discovery tells who is there. */
function world(vacantMs?: number) {
  let told: (addresses: readonly string[]) => void = () => undefined;
  const instanceOf = (address: string): Instance => {
    return { service: 'git', id: address, address, attributes: {}, createdRevision: 1 };
  };
  const set = {
    instances: [],
    leader: undefined,
    onChange: (listener: (instances: readonly Instance[]) => void) => {
      told = (addresses) => listener(addresses.map(instanceOf));
    },
  };
  const discovery = { openServiceSet: async () => set } as unknown as Pick<DiscoveryClient, 'openServiceSet'>;
  const backends = new Backends({ discovery, log: silentLogger(), ...(vacantMs === undefined ? {} : { vacantMs }) });
  backends.hold('git');
  const addressesOf = (all: readonly { address: string }[]): string[] => all.map(({ address }) => address);
  return {
    backends,
    tell: (...addresses: string[]) => told(addresses),
    next: async (signal = never) => addressesOf(await backends.next('git', signal)),
  };
}

test('of a service that lost its last backend those are waited for that come next', async () => {
  const { backends, tell, next } = world();
  await backends.opened();
  assert.deepEqual(await next(), [], 'there never was one');
  tell('a:1');
  assert.deepEqual(await next(), ['a:1']);
  tell();
  const waiting = Promise.all([next(), next()]);
  const left = new AbortController();
  const leaving = next(left.signal);
  left.abort();
  assert.deepEqual(await leaving, []);
  tell('b:1');
  assert.deepEqual(await waiting, [['b:1'], ['b:1']]);
  tell();
  const closing = next();
  backends[Symbol.dispose]();
  assert.deepEqual(await closing, [], 'its route went');
});

test('a service that has been without for long is waited for no more', async () => {
  const { backends, tell, next } = world(50);
  await backends.opened();
  tell('a:1');
  tell();
  assert.deepEqual(await next(), [], 'it waited');
  assert.deepEqual(await next(), [], 'it did not');
  tell('b:1');
  assert.deepEqual(await next(), ['b:1']);
  backends[Symbol.dispose]();
});
