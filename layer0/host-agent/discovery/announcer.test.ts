import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { announce } from './announcer.ts';

const instance = { service: 'web', id: 'j1', address: '100.100.0.2:80', attributes: {} };

/** Discovery that is away for so many attempts. */
function awayFor(attempts: number) {
  const discovery = {
    asked: 0,
    register: async () => {
      discovery.asked += 1;
      if (discovery.asked <= attempts) throw new FlynnError('unavailable', 'etcd is away');
    },
  };
  return discovery;
}

test('an instance is announced however long discovery was away, and that is told once', async (t) => {
  // As if any time had passed: whatever ends by itself has ended.
  t.mock.method(AbortSignal, 'timeout', () => AbortSignal.abort(new DOMException('late', 'TimeoutError')));
  const discovery = awayFor(3);
  const log = silentLogger();
  const warn = t.mock.method(log, 'warn');
  await announce(discovery, instance, { signal: new AbortController().signal, log });
  assert.equal(discovery.asked, 4);
  assert.deepEqual(
    warn.mock.calls.map((call) => call.arguments),
    [['could not announce web/j1, trying on: etcd is away']],
  );
});

test('who waits for discovery stops with its signal, and asks no more', async () => {
  const discovery = awayFor(Infinity);
  const stop = new AbortController();
  const announced = announce(discovery, instance, { signal: stop.signal, log: silentLogger() });
  stop.abort();
  await assert.rejects(announced, { code: 'cancelled' });
  assert.equal(discovery.asked, 1);
  await assert.rejects(announce(discovery, instance, { signal: stop.signal, log: silentLogger() }), {
    code: 'cancelled',
  });
  assert.equal(discovery.asked, 1);
});
