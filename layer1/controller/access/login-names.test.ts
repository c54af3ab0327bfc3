import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import { apps } from '../api.ts';
import { routing } from '../routes/api.ts';
import { login } from './api-login.ts';
import { startLogin } from './login-fixture.ts';
import { hostOf, nonceFor } from './login-nonce.ts';

test('a login is for the cluster whose controller has the name it was begun at, and for no other', async () => {
  await using it = await startLogin();
  const { provider, world } = it;
  await using anybody = new HttpClient({ baseUrl: world.url, name: 'the controller' });
  const secret = 'a-secret-of-this-login';
  const comeFor = async (host: string, claimed = host) => {
    const idToken = provider.sign({ nonce: nonceFor({ host, secret }) });
    const nonce = nonceFor({ host: claimed, secret });
    return anybody.call(login.create, { body: { idToken, nonce, bound: { host: claimed, secret } } });
  };
  const add = (app: string, domain: string) =>
    world.client.call(routing.create, { params: { app }, body: { domain, service: 'controller' } });
  const isDenied = (error: unknown) =>
    hasCode(error, 'denied') && /no route of that name.*route add http flynn\.example\.com/.test(error.message);
  await world.client.call(apps.create, { body: { name: 'shop' } });
  await add('shop', 'shop.example.com');
  await assert.rejects(comeFor('flynn.example.com'), isDenied);
  await assert.rejects(
    comeFor('shop.example.com'),
    (error) => hasCode(error, 'denied'),
    'an app is not the controller',
  );
  await add('controller', 'flynn.example.com');
  await add('controller', '*.flynn.example.com');
  assert.equal((await comeFor('flynn.example.com')).user, 'ann@example.com');
  assert.equal((await comeFor('home.flynn.example.com')).user, 'ann@example.com');
  // Whoever was handed a login for their own cluster, and says that it is for this one.
  const { host } = { host: 'evil.example.com' };
  await assert.rejects(comeFor(host, 'flynn.example.com'), (error) => hasCode(error, 'unauthenticated'));
  const body = { idToken: provider.sign({ nonce: nonceFor({ host, secret }) }), nonce: nonceFor({ host, secret }) };
  const disguised = anybody.call(login.create, { body: { ...body, bound: { host: 'flynn.example.com', secret } } });
  await assert.rejects(disguised, (error) => hasCode(error, 'denied') && /was not begun for/.test(error.message));
  await assert.rejects(
    anybody.call(login.create, { body }),
    (error) => hasCode(error, 'denied') && /of a version before/.test(error.message),
  );
});

test('while it is allowed, who says nothing of the cluster comes in; who is for another one does not', async () => {
  await using it = await startLogin({ takesUnbound: true });
  const { provider, world } = it;
  await using anybody = new HttpClient({ baseUrl: world.url, name: 'the controller' });
  const bound = { host: 'evil.example.com', secret: 'a-secret-of-this-login' };
  const nonce = nonceFor(bound);
  const body = { idToken: provider.sign({ nonce }), nonce };
  await assert.rejects(anybody.call(login.create, { body: { ...body, bound } }), (error) => hasCode(error, 'denied'));
  assert.equal((await anybody.call(login.create, { body })).user, 'ann@example.com');
});

test('a controller is known by its host name, in whatever way that is written', () => {
  const urls = ['https://Flynn.Example.com', 'http://flynn.example.com:8080/', 'https://flynn.example.com.'];
  assert.deepEqual(new Set(urls.map(hostOf)), new Set(['flynn.example.com']));
});
