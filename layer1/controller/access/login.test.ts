import assert from 'node:assert/strict';
import { createHmac } from 'node:crypto';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { audit } from '../audit/api.ts';
import { createControllerClient } from '../client.ts';
import { startTestController } from '../testing.ts';
import { login } from './api-login.ts';
import { self, teams, users } from './api.ts';
import { nonce, startLogin } from './login-fixture.ts';
import { OidcProvider } from './oidc-fixture.ts';

test('who the provider vouches for becomes a user, in the teams named like their groups, the same one each time', async () => {
  await using it = await startLogin();
  const { provider, world, logIn } = it;
  await world.client.call(teams.create, { body: { name: 'ops', role: 'developer' } });
  await world.client.call(teams.create, { body: { name: 'dev' } });
  provider.claims = { ...provider.claims, groups: ['Ops', 'unknown'] };
  const first = await logIn(provider.sign({ nonce }));
  assert.equal(first.user, 'ann@example.com');
  await using ann = createControllerClient({ baseUrl: world.url, key: first.token });
  const who = await ann.call(self.get, {});
  assert.deepEqual([who.name, who.role, who.teams], ['ann@example.com', 'developer', ['ops']]);
  assert.ok(Date.parse(first.expiresAt) - Date.now() <= 86_400_000);
  // Another address and other groups at the provider: still the same person.
  const second = await logIn(provider.sign({ nonce, email: 'ann.new@example.com', groups: ['dev'] }));
  assert.equal(second.user, 'ann@example.com');
  assert.deepEqual((await ann.call(self.get, {})).teams, ['dev']);
  assert.equal((await world.client.call(users.list, {})).length, 1);
  await world.web.trail.flushed();
  const told = (await world.client.call(audit.list, {})).filter(({ action }) => action === 'POST /login');
  assert.ok(told.some(({ changes }) => changes.some(({ type, action }) => type === 'user' && action === 'create')));
});

test('a token that is not good, or not for this, logs nobody in', async () => {
  await using it = await startLogin();
  const { provider, logIn, world } = it;
  const now = Math.floor(Date.now() / 1_000);
  const good = provider.sign({ nonce });
  const [head = '', body = '', signature = ''] = good.split('.');
  const unsigned = (header: object, key = '') => {
    const start = `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${body}`;
    return `${start}.${key === '' ? '' : createHmac('sha256', key).update(start).digest('base64url')}`;
  };
  const other = await OidcProvider.start();
  const cases: [string, string, RegExp][] = [
    ['of another issuer', provider.sign({ nonce, iss: 'https://evil.example.com' }), /another issuer/],
    ['for another client', provider.sign({ nonce, aud: 'other' }), /another client/],
    ['for several, given to another', provider.sign({ nonce, aud: ['flynn-cli', 'x'], azp: 'x' }), /another client/],
    ['expired', provider.sign({ nonce, exp: now - 120 }), /expired/],
    ['of the future', provider.sign({ nonce, iat: now + 600 }), /future/],
    ['not valid yet', provider.sign({ nonce, nbf: now + 600 }), /future/],
    ['old', provider.sign({ nonce, iat: now - 3_600 }), /too old/],
    ['of another login', provider.sign({ nonce: 'another-nonce-altogether' }), /not the answer/],
    ['without a nonce', provider.sign({}), /not the answer/],
    ['signed by somebody else', other.sign({ nonce, iss: provider.issuer }), /does not name/],
    [
      'changed',
      `${head}.${Buffer.from(JSON.stringify({ sub: 'x' })).toString('base64url')}.${signature}`,
      /signature is wrong/,
    ],
    ['alg none', unsigned({ alg: 'none' }), /no signed token/],
    ['alg none with a signature', `${unsigned({ alg: 'none' })}x`, /"none", which is not taken/],
    ['alg HS256 with the public key', unsigned({ alg: 'HS256' }, 'public'), /"HS256", which is not taken/],
    ['alg of another kind of key', provider.sign({ nonce }, { alg: 'ES256' }), /not one for ES256/],
    ['alg __proto__', unsigned({ alg: '__proto__' }, 'x'), /not taken/],
    ['no token', 'x', /no signed token/],
    ['no JSON', 'a.b.c', /cannot be read/],
  ];
  await other[Symbol.asyncDispose]();
  for (const [what, token, message] of cases) {
    await assert.rejects(
      logIn(token),
      (error) => hasCode(error, 'unauthenticated') && message.test(error.message),
      what,
    );
  }
  for (const claims of [{ email: 'eve@evil.com' }, { email_verified: false }, { email: 'eve@example.com.evil.com' }]) {
    await assert.rejects(logIn(provider.sign({ nonce, ...claims })), (error) => hasCode(error, 'denied'));
  }
  assert.deepEqual(await world.client.call(users.list, {}), []);
  await logIn(good);
});

test('what the identity token leaves out the provider is asked for, and believed only about the same person', async () => {
  await using it = await startLogin();
  const { provider, world, logIn } = it;
  await world.client.call(teams.create, { body: { name: 'ops', role: 'developer' } });
  provider.isTerse = true;
  provider.claims = { ...provider.claims, groups: ['ops'] };
  const idToken = provider.sign({ nonce });
  await assert.rejects(logIn(idToken), (error) => hasCode(error, 'denied') && /told no address/.test(error.message));
  const made = await logIn(idToken, provider.accessToken);
  assert.equal(made.user, 'ann@example.com');
  await using ann = createControllerClient({ baseUrl: world.url, key: made.token });
  assert.deepEqual((await ann.call(self.get, {})).teams, ['ops']);

  await assert.rejects(
    logIn(idToken, 'another'),
    (error) => hasCode(error, 'unavailable') && /401/.test(error.message),
  );
  provider.claims = { ...provider.claims, sub: 'subject-2', email: 'boss@example.com' };
  await assert.rejects(
    logIn(idToken, provider.accessToken),
    (error) => hasCode(error, 'unauthenticated') && /somebody else/.test(error.message),
  );
});

test('nobody becomes a user that is somebody else’s; one that an admin added is theirs by a verified address', async () => {
  await using it = await startLogin();
  const { provider, world, logIn } = it;
  await world.client.call(users.create, { body: { name: 'ann@example.com', role: 'admin' } });
  await world.client.call(users.create, { body: { name: 'root2', role: 'admin' } });
  assert.equal((await logIn(provider.sign({ nonce }))).user, 'ann@example.com');
  // Another person with the address that was Ann's.
  await assert.rejects(logIn(provider.sign({ nonce, sub: 'subject-2' })), (error) => hasCode(error, 'conflict'));
  await using open = await startLogin({ domains: [] });
  await open.world.client.call(users.create, { body: { name: 'boss', role: 'admin' } });
  const asBoss = open.provider.sign({ nonce, sub: 's3', email: undefined, preferred_username: 'Boss' });
  await assert.rejects(open.logIn(asBoss), (error) => hasCode(error, 'conflict'));
});

test('an address is a user’s name only once it is verified: nobody takes that of somebody else', async () => {
  await using it = await startLogin({ domains: [] });
  const { provider, logIn } = it;
  const named = async (claims: Record<string, unknown>) => {
    provider.claims = claims;
    return (await logIn(provider.sign({ nonce }), provider.accessToken)).user;
  };
  const unverified = { email: 'ceo@example.com', email_verified: false };
  assert.match(
    await named({ ...unverified, sub: 'Auth|1', preferred_username: 'ceo@example.com' }),
    /^user-[0-9a-f]{12}$/,
  );
  assert.equal(await named({ ...unverified, sub: 'subject-2' }), 'subject-2');
  assert.equal(await named({ ...unverified, sub: 's3', preferred_username: 'Cyd' }), 'cyd');
  assert.equal(await named({ ...unverified, sub: 's4', email_verified: true }), 'ceo@example.com', 'the one it is of');
});

test('truths written as text and what is told as null are read; who verified an address is asked of its own document', async () => {
  await using it = await startLogin();
  const { provider, logIn } = it;
  const good = { email: 'ann@example.com', email_verified: true, groups: [] };
  const cases = {
    text: { ...good, email_verified: 'true' },
    nulls: { ...good, preferred_username: null, azp: null, nbf: null },
  };
  for (const [sub, claims] of Object.entries(cases)) {
    provider.claims = { ...claims, sub, email: `${sub}@example.com` };
    for (provider.isTerse of [false, true]) {
      assert.equal((await logIn(provider.sign({ nonce }), provider.accessToken)).user, `${sub}@example.com`);
    }
  }
  provider.isTerse = false;
  await assert.rejects(logIn(provider.sign({ nonce, email_verified: 'false' })), (error) => hasCode(error, 'denied'));
  provider.claims = { ...good, sub: 's5', email: 'dan@example.com' };
  const apart = provider.sign({ nonce, email_verified: undefined });
  assert.equal((await logIn(apart, provider.accessToken)).user, 'dan@example.com');
  // Of the address in the identity token nobody says that it is verified: the other one is told to be.
  const another = provider.sign({ nonce, sub: 's6', email: 'boss@example.com', email_verified: undefined });
  provider.claims = { ...good, sub: 's6', email: 'eve@example.com' };
  assert.equal((await logIn(another, provider.accessToken)).user, 'eve@example.com');
  provider.claims = { sub: 's7', email_verified: true };
  const unknown = provider.sign({ nonce, email: 'boss@example.com', email_verified: undefined });
  await assert.rejects(logIn(unknown, provider.accessToken), (error) => hasCode(error, 'denied'));
});

test('a cluster without a provider says so', async () => {
  await using world = await startTestController({ hosts: 0, hasWorker: false });
  await using anybody = new HttpClient({ baseUrl: world.url, name: 'the controller' });
  await assert.rejects(anybody.call(login.get, {}), (error) => hasCode(error, 'not_found'));
});
