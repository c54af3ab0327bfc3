import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { nonce, settingsFor } from './login-fixture.ts';
import { OidcProvider } from './oidc-fixture.ts';
import { OidcVerifier } from './oidc.ts';

const hourMs = 3_600_000;

async function start() {
  const provider = await OidcProvider.start();
  let steadyMs = 0;
  const verifier = new OidcVerifier(settingsFor(provider), Date.now, () => steadyMs);
  const signal = AbortSignal.timeout(60_000);
  return {
    provider,
    pass: (ms: number) => {
      steadyMs += ms;
    },
    identify: (token: string, until = signal) => verifier.identify(token, nonce, until),
    madeUp: async (count: number) => {
      const tokens = Array.from({ length: count }, (_, index) => provider.sign({ nonce }, { kid: `made-up-${index}` }));
      return Promise.allSettled(tokens.map(async (token) => verifier.identify(token, nonce, signal)));
    },
    [Symbol.asyncDispose]: async () => provider[Symbol.asyncDispose](),
  };
}

const isAway = (error: unknown) => hasCode(error, 'unavailable') && /status 503/.test(error.message);

test('the provider changes its keys, and made-up ones do not make it being asked all the time', async () => {
  await using it = await start();
  const { provider, pass, identify } = it;
  const before = provider.sign({ nonce });
  assert.equal((await identify(before)).subject, 'subject-1');
  for (const tried of await it.madeUp(20))
    assert.match(String(tried.status === 'rejected' && tried.reason), /not name/);
  assert.equal(provider.keyRequests, 1);
  provider.rotate();
  const after = provider.sign({ nonce });
  await assert.rejects(identify(after), /does not name/, 'asked a moment ago');
  pass(11_000);
  assert.equal((await identify(after)).subject, 'subject-1');
  await assert.rejects(identify(before), /does not name/, 'the old key is good no more');
  assert.equal(provider.keyRequests, 2);
});

test('however many come at once, it is asked once, and one who leaves ends it for nobody', async () => {
  await using it = await start();
  const { provider, identify } = it;
  const leaving = new AbortController();
  const left = identify(provider.sign({ nonce }), leaving.signal);
  const all = it.madeUp(100);
  leaving.abort();
  await assert.rejects(left);
  await all;
  assert.equal((await identify(provider.sign({ nonce }))).subject, 'subject-1');
  assert.equal(provider.requests, 2, 'for its configuration, and for its keys');
});

test('a provider in trouble is left alone for a moment, and whoever has a token of it logs in for a day', async () => {
  await using it = await start();
  const { provider, pass, identify } = it;
  provider.isAway = true;
  for (let round = 0; round < 5; round += 1) {
    for (const tried of await it.madeUp(20)) assert.ok(tried.status === 'rejected' && isAway(tried.reason));
  }
  assert.equal(provider.requests, 1);
  provider.isAway = false;
  pass(11_000);
  const token = provider.sign({ nonce });
  assert.equal((await identify(token)).subject, 'subject-1');
  provider.isAway = true;
  pass(2 * hourMs);
  assert.equal((await identify(token)).subject, 'subject-1', 'its keys were known before');
  const asked = provider.requests;
  assert.equal((await identify(token)).subject, 'subject-1', 'it was asked a moment ago');
  await assert.rejects(identify(provider.sign({ nonce }, { kid: 'new' })), isAway, 'nothing is known of that one');
  assert.equal(provider.requests, asked);
  pass(23 * hourMs);
  await assert.rejects(identify(token), isAway);
});

test('a token that names no key is of the only one there is', async () => {
  await using it = await start();
  const { provider, pass, identify } = it;
  assert.equal((await identify(provider.sign({ nonce }, { kid: undefined }))).subject, 'subject-1');
  provider.rotate({ keepsFormer: true });
  pass(2 * hourMs);
  await assert.rejects(identify(provider.sign({ nonce }, { kid: undefined })), /does not say which/);
  assert.equal((await identify(provider.sign({ nonce }))).subject, 'subject-1');
});
