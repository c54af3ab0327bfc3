/** The dashboard in front of a real controller: logging in and out, and the API with the rights of who did. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { Writable } from 'node:stream';
import { apps } from '@flynn/controller/api';
import { self, tokens, users } from '@flynn/controller/access/api';
import { audit } from '@flynn/controller/audit/api';
import { type TestController, startTestController } from '@flynn/controller/testing';
import { createLogger } from '@flynn/kit/log';
import { serviceToken } from '@flynn/controller/access/service-token';
import { type TestDashboard, script, startTestDashboard } from './testing.ts';

let controller: TestController;
let dashboard: TestDashboard;
let logged = '';
let nowMs = Date.now();

before(async () => {
  controller = await startTestController({ hosts: 1 });
  const destination = new Writable({
    write(chunk: Buffer, _encoding, done) {
      logged += chunk.toString();
      done();
    },
  });
  const log = createLogger('dashboard', { level: 'debug', destination });
  dashboard = await startTestDashboard(controller.url, { log, now: () => nowMs });
  await controller.client.call(users.create, { body: { name: 'ann', role: 'developer' } });
  await controller.client.call(users.create, { body: { name: 'vic', role: 'viewer' } });
  await controller.client.call(apps.create, { body: { name: 'shop' } });
});
after(async () => {
  await dashboard[Symbol.asyncDispose]();
  await controller[Symbol.asyncDispose]();
});

async function tokenOf(user: string, more: { isLink?: boolean; expiresInMs?: number } = {}): Promise<string> {
  return (await controller.client.call(tokens.create, { body: { name: 'test', user, ...more } })).token;
}

const asJson = { 'content-type': 'application/json' };

function login(token: string, headers: Record<string, string | undefined> = {}) {
  return dashboard.ask('POST', '/session', { headers: { ...asJson, ...headers }, body: JSON.stringify({ token }) });
}

const codeOf = (body: string): unknown => (JSON.parse(body) as { code?: unknown }).code;

test('who logs in gets a token of its own in the cookie, which ends with the login', async () => {
  const token = await tokenOf('ann');
  const answer = await login(token);
  assert.equal(answer.status, 200);
  assert.deepEqual(JSON.parse(answer.body), { user: 'ann' }, 'no token is where scripts read');
  const [cookie = ''] = answer.headers['set-cookie'] ?? [];
  const [, made = '', maxAge = ''] =
    /^__Host-flynn-session=(flynn_\w{12}_[\w-]{43}); Path=\/; Max-Age=(\d+); HttpOnly; SameSite=Strict; Secure$/.exec(
      cookie,
    ) ?? [];
  assert.notEqual(made, '', cookie);
  assert.notEqual(made, token);
  assert.ok(Number(maxAge) > 11 * 3_600 && Number(maxAge) <= 12 * 3_600);

  const headers = { cookie: `__Host-flynn-session=${made}` };
  const read = await dashboard.ask('GET', '/session', { headers });
  assert.equal(read.status, 200);
  const session = JSON.parse(read.body) as Record<string, unknown>;
  assert.deepEqual(
    [session['user'], session['role'], session['cluster'], session['domain'], session['kind']],
    ['ann', 'developer', 'test', 'flynn.localhost', 'user'],
  );
  assert.ok(!read.body.includes('flynn_'));
  const own = await dashboard.ask('GET', '/api/whoami', { headers });
  assert.equal((JSON.parse(own.body) as { name: string }).name, 'ann');
  const out = await dashboard.ask('DELETE', '/session', { headers });
  assert.equal(out.status, 204);
  assert.match(out.headers['set-cookie']?.[0] ?? '', /^__Host-flynn-session=; Path=\/; Max-Age=0; /);
  assert.equal((await dashboard.ask('GET', '/session', { headers })).status, 401);
  assert.equal((await dashboard.ask('GET', '/api/whoami', { headers })).status, 401);
  await controller.client.call(self.get, {}, { headers: { authorization: `Bearer ${token}` } });
  assert.equal((await dashboard.ask('DELETE', '/session', { headers })).status, 204, 'again is fine');
});

test('a link logs in once', async () => {
  const link = await tokenOf('ann', { isLink: true, expiresInMs: 3_600_000 });
  const cookie = await dashboard.logIn(link);
  assert.equal((await dashboard.ask('GET', '/session', { headers: { cookie } })).status, 200);
  const again = await login(link);
  assert.deepEqual([again.status, codeOf(again.body)], [401, 'unauthenticated']);
  assert.match(again.body, /a link of .* is good once/);
});

test('a login that another takes the place of in the same browser is ended', async () => {
  const cookie = await dashboard.logIn(await tokenOf('ann'));
  assert.equal((await login(await tokenOf('vic'), { cookie })).status, 200);
  assert.equal((await dashboard.ask('GET', '/session', { headers: { cookie } })).status, 401);
});

test('what is no key, or a key of the platform’s parts, or not said as it should be, logs nobody in', async () => {
  for (const [token, status] of [
    ['nothing', 401],
    [`flynn_abcdefghijkl_${'x'.repeat(43)}`, 401],
    [controller.key, 403],
    [serviceToken(controller.userKey, 'router'), 401],
  ] as const) {
    const answer = await login(token, { 'x-forwarded-for': `192.0.2.${status - 300}` });
    assert.equal(answer.status, status, token);
    assert.equal(answer.headers['set-cookie'], undefined);
  }
  const bad = async (body: string, headers: Record<string, string | undefined> = asJson) =>
    (await dashboard.ask('POST', '/session', { headers, body })).status;
  const body = JSON.stringify({ token: await tokenOf('ann') });
  assert.equal(await bad('{'), 400);
  assert.equal(await bad('{"token":1}'), 400);
  assert.equal(await bad(`{"token":"${'x'.repeat(5_000)}"}`), 400);
  assert.equal(await bad(body, { 'content-type': 'text/plain' }), 400);
  assert.equal(await bad(body, {}), 400);
  assert.equal(await bad(body, { ...asJson, origin: 'https://evil.example.com' }), 403);
  assert.equal(await bad(body, { ...asJson, origin: undefined, 'sec-fetch-site': undefined }), 403);
});

test('who tries wrong tokens too often waits, and whoever has a good one gets in from the same address', async () => {
  const from = { 'x-forwarded-for': '198.51.100.1' };
  const outcomes = [];
  for (let index = 0; index < 11; index += 1) outcomes.push((await login('wrong', from)).status);
  assert.deepEqual(outcomes, [...Array<number>(10).fill(401), 429]);
  const late = await login('wrong', from);
  assert.deepEqual([late.status, late.headers['retry-after']], [429, '10']);
  // What a client writes before the router's word makes it nobody else.
  assert.equal((await login('wrong', { 'x-forwarded-for': '6.6.6.6, 198.51.100.1' })).status, 429);
  assert.equal((await login('wrong', { 'x-forwarded-for': '198.51.100.2' })).status, 401);
  assert.equal((await login(await tokenOf('ann'), from)).status, 200);
  assert.equal((await login(await tokenOf('ann', { isLink: true }), from)).status, 200);
  nowMs += 10_000;
  assert.equal((await login('wrong', from)).status, 401);
});

test('the API is asked with the rights of who logged in, and tells where from', async () => {
  const viewer = await dashboard.logIn(await tokenOf('vic'));
  const developer = await dashboard.logIn(await tokenOf('ann'));
  const create = (cookie: string, name: string) =>
    dashboard.ask('POST', '/api/apps', {
      headers: { ...asJson, cookie, 'x-forwarded-for': '6.6.6.6, 192.0.2.77', 'user-agent': 'Browser/1' },
      body: JSON.stringify({ name }),
    });
  assert.equal((await create(viewer, 'a')).status, 403);
  const made = await create(developer, 'made');
  assert.equal(made.status, 200);
  assert.equal(made.headers['content-type'], 'application/json; charset=utf-8');
  await controller.web.trail.flushed();
  const entries = await controller.client.call(audit.list, { query: {} });
  const own = entries.filter(({ action, actor }) => action === 'POST /apps' && actor.name !== 'root');
  assert.deepEqual(
    own.map(({ actor, outcome, from }) => [actor.name, outcome, from]),
    [
      ['ann', 'done', { address: '192.0.2.77', userAgent: 'Browser/1' }],
      ['vic', 'denied', { address: '192.0.2.77', userAgent: 'Browser/1' }],
    ],
  );
});

test('without a login, or from another page, nothing of the API is to be had', async () => {
  const cookie = await dashboard.logIn(await tokenOf('ann'));
  assert.equal((await dashboard.ask('GET', '/api/apps')).status, 401);
  assert.equal((await dashboard.ask('GET', '/api/apps', { headers: { cookie } })).status, 200);
  // A key that the browser sends otherwise is none.
  const authorization = `Bearer ${controller.userKey}`;
  assert.equal((await dashboard.ask('GET', '/api/apps', { headers: { authorization } })).status, 401);
  const neighbour = { cookie, origin: 'https://evil.example.com', 'sec-fetch-site': 'same-site' };
  for (const [method, path] of [
    ['GET', '/api/apps'],
    ['POST', '/api/apps'],
    ['DELETE', '/api/apps/shop'],
    ['GET', '/session'],
    ['DELETE', '/session'],
  ] as const) {
    assert.equal((await dashboard.ask(method, path, { headers: neighbour })).status, 403, `${method} ${path}`);
  }
  const isThere = await controller.client.call(apps.get, { params: { app: 'shop' } });
  assert.equal(isThere.name, 'shop');
  for (const method of ['OPTIONS', 'TRACE', 'PROPFIND']) {
    assert.equal((await dashboard.ask(method, '/api/apps', { headers: { cookie } })).status, 400, method);
  }
  for (const path of ['/api/../session', '/api/%2e%2e/session', '/api/apps/..%5c', '/api@evil.example.com/']) {
    const { status, body } = await dashboard.ask('GET', path, { headers: { cookie } });
    assert.ok(status === 400 || status === 404 || body.startsWith('<!doctype'), `${path}: ${status}`);
  }
});

test('a change is streamed as it happens, and its stream ends with the login', async () => {
  const cookie = await dashboard.logIn(await tokenOf('ann'));
  const headers = { cookie, accept: 'text/event-stream' };
  const stream = await dashboard.open('GET', '/api/events', { headers });
  assert.equal(stream.headers['content-type'], 'text/event-stream');
  let text = '';
  let isTold = false;
  for await (const chunk of stream) {
    text += String(chunk);
    if (!isTold && text.includes('current')) {
      isTold = true;
      await controller.client.call(apps.create, { body: { name: 'streamed' } });
    }
    if (text.includes('streamed')) await dashboard.ask('DELETE', '/session', { headers: { cookie } });
  }
  assert.match(text, /streamed/);
});

test('pages are one document with a policy, assets are for ever, and nothing is guessed', async () => {
  for (const path of ['/', '/login', '/apps/shop', '/apps/%2e%2e/x', '/apix', '/index.html']) {
    const { status, headers, body } = await dashboard.ask('GET', path, { headers: { origin: undefined } });
    assert.deepEqual([status, body.slice(0, 9), headers['cache-control']], [200, '<!doctype', 'no-cache'], path);
    const policy = String(headers['content-security-policy']);
    assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self';/);
    assert.match(policy, /connect-src 'self' wss:\/\/dashboard\.example\.com; .*frame-ancestors 'none'/);
    assert.doesNotMatch(policy, /unsafe|\*/);
    assert.equal(headers['x-content-type-options'], 'nosniff');
    assert.equal(headers['referrer-policy'], 'no-referrer');
  }
  const asset = await dashboard.ask('GET', '/assets/main-ABC.js');
  assert.deepEqual([asset.status, asset.body], [200, script]);
  assert.match(String(asset.headers['cache-control']), /immutable/);
  const zipped = await dashboard.ask('HEAD', '/assets/main-ABC.js', { headers: { 'accept-encoding': 'br;q=0, gzip' } });
  assert.equal(zipped.headers['content-encoding'], 'gzip');
  assert.ok(Number(zipped.headers['content-length']) < script.length / 10);
  for (const path of [
    '/assets/none.js',
    '/assets/',
    '/assets/../index.html',
    '/assets/main-ABC.js.gz',
    '/assets/%2e%2e/index.html',
  ]) {
    assert.equal((await dashboard.ask('GET', path)).status, 404, path);
  }
  assert.equal((await dashboard.ask('POST', '/apps')).status, 400);
  assert.deepEqual(JSON.parse((await dashboard.ask('GET', '/ping', { headers: { host: 'x y' } })).body), {
    name: 'dashboard',
    status: 'ok',
  });
});

test('no token is in any line of the log, and logins are', async () => {
  const cookie = await dashboard.logIn(await tokenOf('ann'));
  const other = await tokenOf('ann');
  const revoked = await dashboard.ask('DELETE', `/api/tokens/${other}`, { headers: { cookie } });
  assert.equal(revoked.status, 204);
  assert.match(logged, /"msg":"logged in"/);
  assert.match(logged, /\/api\/tokens\/flynn_\w{12}_…/);
  assert.doesNotMatch(logged, /flynn_[a-z0-9]{12}_[\w-]{10}/);
});
