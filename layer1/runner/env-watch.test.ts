import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { silentLogger } from '@flynn/kit/log';
import { raceAbort } from '@flynn/kit/retry';
import { EnvWatch } from './env-watch.ts';
import type { Env } from './env-watch.ts';

/** A source that is told what to say. */
class Source {
  #told: { version: string; env: Record<string, string> } | undefined;
  #version = 0;
  #wake = Promise.withResolvers<void>();
  isAway = false;
  asked = 0;

  say(env: Record<string, string>): void {
    this.#version += 1;
    this.#told = { version: String(this.#version), env };
    this.#wake.resolve();
    this.#wake = Promise.withResolvers();
  }

  readonly ask = async (known: string | undefined, signal: AbortSignal) => {
    this.asked += 1;
    while (this.#told === undefined || this.#told.version === known) await raceAbort(this.#wake.promise, signal);
    if (this.isAway) throw new FlynnError('unavailable', 'not now');
    return this.#told;
  };
}

/** What was emitted, to be taken one by one. */
function emitted(watch: EnvWatch): () => Promise<Env> {
  const queue: Env[] = [];
  let wake = Promise.withResolvers<void>();
  watch.onChange((env) => {
    queue.push(env);
    wake.resolve();
  });
  return async () => {
    while (queue.length === 0) {
      wake = Promise.withResolvers();
      await raceAbort(wake.promise, AbortSignal.timeout(60_000));
    }
    return queue.shift() ?? {};
  };
}

function open(original: Env) {
  const source = new Source();
  const watch = new EnvWatch({ original, source: source.ask, log: silentLogger() });
  const stopping = new AbortController();
  return { source, watch, next: emitted(watch), stopping };
}

test('nothing is had before the first values; each change is told; what is unset is as it was at the start', async () => {
  const { source, watch, next, stopping } = open({ HOME: '/root', MIRROR: 'https://own.example.com' });
  const first = watch.first(stopping.signal);
  let isThere = false;
  void first.then(() => (isThere = true));
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(isThere, false);
  source.say({ MIRROR: 'https://one.example.com', EXTRA: '1' });
  assert.deepEqual(await first, { HOME: '/root', MIRROR: 'https://one.example.com', EXTRA: '1' });
  await next();
  const following = watch.follow(stopping.signal);
  source.say({ MIRROR: 'https://two.example.com' });
  assert.deepEqual(await next(), { HOME: '/root', MIRROR: 'https://two.example.com' });
  source.say({});
  assert.deepEqual(await next(), { HOME: '/root', MIRROR: 'https://own.example.com' });
  assert.deepEqual(await watch.first(stopping.signal), { HOME: '/root', MIRROR: 'https://own.example.com' });
  stopping.abort();
  await following;
});

test('who waits for the first values hears why there are none, and that it is to stop', async () => {
  const { source, watch, stopping } = open({});
  source.isAway = true;
  source.say({});
  await assert.rejects(watch.first(stopping.signal), { code: 'unavailable' });
  source.isAway = false;
  const silent = open({});
  const waiting = silent.watch.first(silent.stopping.signal);
  silent.stopping.abort();
  await assert.rejects(waiting, { code: 'cancelled' });
  assert.deepEqual(await watch.first(stopping.signal), {});
});

test('while the source is away the last values hold, and what was set meanwhile is told once it is back', async () => {
  const { source, watch, next, stopping } = open({});
  source.say({ A: '1' });
  await watch.first(stopping.signal);
  await next();
  source.isAway = true;
  source.say({ A: '2' });
  assert.deepEqual(await watch.fresh(stopping.signal), { A: '1' });
  source.isAway = false;
  assert.deepEqual(await watch.fresh(stopping.signal), { A: '2' });
  assert.deepEqual(await next(), { A: '2' });
  source.isAway = true;
  const following = watch.follow(stopping.signal);
  source.say({ A: '3' });
  source.isAway = false;
  assert.deepEqual(await next(), { A: '3' });
  stopping.abort();
  await following;
});
