import assert from 'node:assert/strict';
import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { after, before, beforeEach, test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import type { ErrorCode } from '@flynn/kit/errors';
import type { Provisioned } from './model.ts';
import { deprovision, isLater, isRefused, isUnsent, provision } from './protocol.ts';
import { TestProvider, answeredByRouter, answers, hangs } from './test-provider.ts';
import type { Misbehaviour } from './test-provider.ts';

let provider: TestProvider;
before(async () => {
  provider = await TestProvider.start();
});
beforeEach(() => {
  provider.misbehaves = undefined;
  provider.seen.length = 0;
  provider.made.clear();
});
after(async () => {
  await provider?.[Symbol.asyncDispose]();
});

const { signal } = new AbortController();
const asked = () => ({ name: 'pg', url: provider.url, token: 'hunter3' });
const make = async (key = 'k1', deadlineMs = 20_000): Promise<Provisioned> => {
  const given = await provision(asked(), { config: { size: 'small' }, key }, { signal, deadlineMs });
  return isLater(given) ? assert.fail('it is only begun') : given;
};

async function failure(work: Promise<unknown>): Promise<FlynnError> {
  try {
    await work;
  } catch (error) {
    assert.ok(error instanceof FlynnError, String(error));
    assert.doesNotMatch(error.message, /hunter/);
    return error;
  }
  return assert.fail('it was answered');
}

test('the same key is the same thing, the token goes along, and an id is one part of a path', async () => {
  const first = await make();
  assert.deepEqual(first, { id: 'db/1', env: provider.env });
  assert.deepEqual(await make(), first);
  assert.equal((await make('k2')).id, 'db/2');
  assert.deepEqual(provider.seen[0], {
    method: 'POST',
    path: '/resources',
    key: 'k1',
    authorization: 'Bearer hunter3',
    config: { size: 'small' },
  });
  await deprovision(asked(), first.id, { signal });
  assert.equal(provider.seen.at(-1)?.path, '/resources/db%2F1');
  assert.deepEqual([...provider.made.keys()], ['db/2']);
  await deprovision(asked(), first.id, { signal });
});

test('whatever a provider answers instead is told for what it is, with its own words and without secrets', async () => {
  const large = Buffer.alloc(10 * 1024 ** 2, 'x').toString();
  const rows: [Misbehaviour, ErrorCode, RegExp][] = [
    [answers(422, '{"message":"no such\\n size"}'), 'invalid', /^the provider pg refuses this \(422: no such size\)$/],
    [answers(400, 'plain words'), 'invalid', /400: plain words/],
    [answers(401, ''), 'denied', /refuses this cluster \(401\): an admin of the cluster gives it the right token/],
    [answers(503, 'starting'), 'unavailable', /answered 503: starting/],
    [answers(429, ''), 'unavailable', /answered 429/],
    [answers(302, ''), 'unavailable', /is elsewhere \(302\)/],
    [answers(201, '<html>'), 'unavailable', /something unexpected/],
    [answers(201, '{"id":"..","env":{}}'), 'unavailable', /something unexpected \(id: no name of a thing\)/],
    [answers(201, '{"id":"a","env":{"NO-NAME":"hunter2"}}'), 'unavailable', /something unexpected \(env/],
    [answers(201, '{"id":"a","env":{"A":7}}'), 'unavailable', /something unexpected \(env\.A/],
    [answers(201, JSON.stringify({ id: 'a', env: { A: large } })), 'unavailable', /more than 64 KB/],
    ['lost', 'unavailable', /cannot be reached/],
  ];
  for (const [misbehaviour, code, pattern] of rows) {
    provider.misbehaves = misbehaviour;
    const error = await failure(make());
    assert.equal(error.code, code, error.message);
    assert.match(error.message, pattern);
    assert.equal(isUnsent(error), false, error.message);
  }
  provider.misbehaves = answers(500, '{"error":"full"}');
  assert.match((await failure(deprovision(asked(), 'a', { signal }))).message, /answered 500: full/);
});

test('what a router of flynn’s answers in its place says nothing of what is there', async () => {
  for (const [status, code, unsent] of [
    [404, 'unknown-host', true],
    [502, 'backend-broke', false],
    [413, 'body-too-large', false],
  ] as const) {
    provider.misbehaves = answeredByRouter(status, code);
    for (const error of await Promise.all([make(), deprovision(asked(), 'a', { signal })].map(failure))) {
      assert.equal(error.code, 'unavailable');
      assert.equal(error.message, `the provider pg cannot be reached: its router answered ${status} (${code})`);
      assert.equal(isUnsent(error), unsent);
    }
  }
});

test('what is only begun is asked for again, when the provider says or when we like', async () => {
  const rows: [Record<string, string>, number | undefined][] = [
    [{ 'retry-after': '7' }, 7_000],
    [{}, undefined],
    [{ 'retry-after': 'Wed, 21 Oct 2026 07:28:00 GMT' }, undefined],
    [{ 'retry-after': '-1' }, undefined],
  ];
  for (const [headers, laterMs] of rows) {
    provider.misbehaves = answers(202, '', headers);
    assert.deepEqual(await provision(asked(), { config: {}, key: 'k' }, { signal }), { laterMs });
    assert.deepEqual(await deprovision(asked(), 'a', { signal }), { laterMs });
  }
  provider.misbehaves = answers(422, '');
  assert.equal(isRefused(await failure(make())), true);
  provider.misbehaves = answers(404, '');
  assert.equal(isRefused(await failure(make())), false, 'it may be somebody else who answers there');
  for (const status of [409, 423]) {
    provider.misbehaves = answers(status, '');
    assert.equal(isRefused(await failure(make())), false, 'so servers answer a key that they are at still');
  }
});

test('a provider that hangs is given up, and one that is not there has heard of nothing', async () => {
  provider.misbehaves = hangs;
  const late = await failure(make('k1', 50));
  assert.match(late.message, /did not answer within 0\.05 s/);
  assert.equal(isUnsent(late), false);
  const stop = new AbortController();
  const waiting = provision(asked(), { config: {}, key: 'k' }, { signal: stop.signal });
  stop.abort(new FlynnError('cancelled', 'no more'));
  assert.equal((await failure(waiting)).code, 'cancelled');
  await provider.close();
  const away = await failure(make());
  assert.equal(away.code, 'unavailable');
  assert.match(away.message, /the provider pg cannot be reached: .*ECONNREFUSED/);
  assert.equal(isUnsent(away), true);
  provider.misbehaves = undefined;
  await provider.listen();
  assert.equal((await make()).id, 'db/1');
});

test('one that is refused for a moment, as an app that was just started may be, is asked again', async () => {
  await provider.close();
  const { port } = new URL(provider.url);
  const refused = Promise.withResolvers<void>();
  // What fetch says of a connection that does not come about.
  const onRefused = (message: unknown): void => {
    const of: unknown = Reflect.get(Object(message), 'connectParams');
    if (Reflect.get(Object(of), 'port') === port) refused.resolve();
  };
  subscribe('undici:client:connectError', onRefused);
  const waiting = make();
  await refused.promise;
  unsubscribe('undici:client:connectError', onRefused);
  await provider.listen();
  assert.equal((await waiting).id, 'db/1');
  assert.equal(provider.seen.length, 1);
});
