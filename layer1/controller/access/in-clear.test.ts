import assert from 'node:assert/strict';
import { request } from 'node:http';
import { json } from 'node:stream/consumers';
import { test } from 'node:test';
import { waitFor } from '@flynn/kit/retry';
import { createAuthority, issueCertificate } from '@flynn/kit/tls';
import { certificates } from '../certificates/api.ts';
import { startTestController } from '../testing.ts';
import { inClear } from './in-clear.ts';

type Said = { status: number; location: string | undefined; body: unknown };

/** As the router passes it on that took it over http://. */
function say(
  url: string,
  path: string,
  options: { method?: string; headers?: Record<string, string> } = {},
): Promise<Said> {
  const { promise, resolve, reject } = Promise.withResolvers<Said>();
  const headers = {
    'x-forwarded-proto': 'http',
    'x-forwarded-host': 'controller.example.com:80',
    ...options.headers,
  };
  const outgoing = request(`${url}${path}`, { method: options.method, headers, agent: false }, (response) => {
    const { statusCode: status = 0 } = response;
    const told = { status, location: response.headers.location };
    if (status === 308) {
      response.resume();
      resolve({ ...told, body: undefined });
    } else
      json(response)
        .then((body) => resolve({ ...told, body }))
        .catch(reject);
  });
  outgoing.once('error', reject).end();
  return promise;
}

test('a key sent in clear is refused as soon as there is another way, and who sent none is shown that way', async () => {
  await using world = await startTestController({ hosts: 1, hasWorker: false });
  const { url, userKey, client } = world;
  const authorization = `Bearer ${userKey}`;
  const withKey = { headers: { authorization } };
  assert.equal((await say(url, '/apps', withKey)).status, 200, 'without a certificate there is no other way');
  const authority = await createAuthority('test');
  const own = await issueCertificate(authority, { name: 'controller', addresses: ['controller.example.com'] });
  const body = { domains: ['controller.example.com'], ...own };
  const { id } = await client.call(certificates.add, { body });
  await waitFor(async () => (await say(url, '/apps', withKey)).status === 403, {
    what: 'the certificate to be known',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
  for (const method of ['GET', 'POST', 'DELETE']) {
    const { status, body: said } = await say(url, '/apps', { method, ...withKey });
    assert.equal(status, 403, method);
    assert.match(
      JSON.stringify(said),
      /"code":"denied".*https:\/\/controller\.example\.com.*flynn cluster add NAME.*keeps the platform prints/,
    );
  }
  assert.equal((await say(url, '/login', { method: 'POST' })).status, 403, 'what is sent to log in is secret too');
  const shown = await say(url, '/apps?limit=2');
  assert.deepEqual([shown.status, shown.location], [308, 'https://controller.example.com/apps?limit=2']);
  // Whether it is there may be asked for in any way, over TLS and inside all is as ever, and so is another name.
  assert.equal((await say(url, '/ping')).status, 200);
  const secure = { authorization, 'x-forwarded-proto': 'https' };
  assert.equal((await say(url, '/apps', { headers: secure })).status, 200);
  const other = { authorization, 'x-forwarded-host': 'other.example.com' };
  assert.equal((await say(url, '/apps', { headers: other })).status, 200);
  assert.ok(Array.isArray(await client.call(certificates.list, {})));
  await client.call(certificates.remove, { params: { certificate: id } });
  await waitFor(async () => (await say(url, '/apps', withKey)).status === 200, {
    what: 'the certificate to be gone',
    deadlineMs: 60_000,
    intervalMs: 5,
  });
});

test('only a certificate that is good counts, for any name it covers, and the port of the router is told', () => {
  const resource = (domains: string[], notAfter: string | undefined) => ({
    spec: { source: 'acme' as const, domains, isAutomatic: false },
    status: {
      issued: notAfter === undefined ? undefined : { ...bundle, notAfter },
      issuedFor: notAfter === undefined ? [] : domains,
      challenges: [],
      records: [],
    },
  });
  const bundle = { certificate: '', privateKey: '', issuer: '', notBefore: '', notAfter: '', notes: [] };
  const all = [
    resource(['*.example.com'], '2030-01-02T00:00:00Z'),
    resource(['waiting.test'], undefined),
    resource(['over.test'], '2029-12-31T00:00:00Z'),
  ];
  const now = () => Date.parse('2030-01-01T00:00:00Z');
  const where = inClear({ certificates: () => all, httpsPort: 8443, now });
  const ask = (host: string) => where({ headers: { 'x-forwarded-proto': 'http', host }, method: 'GET', url: '/a' });
  assert.equal(ask('Controller.example.com:8080'), 'https://controller.example.com:8443/a');
  assert.equal(ask('waiting.test'), undefined);
  assert.equal(ask('over.test'), undefined);
  assert.equal(ask(''), undefined);
});
