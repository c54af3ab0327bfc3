import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { HttpClient } from '@flynn/kit/http-client';
import type { Route } from '@flynn/kit/routes';
import { waitFor } from '@flynn/kit/retry';
import { apps, deployments, releases, routing } from '../api.ts';
import { keys } from '../api-keys.ts';
import { platform } from '../api-platform.ts';
import { operations } from '../operations/api.ts';
import { createControllerClient } from '../client.ts';
import { startTestController } from '../testing.ts';
import type { TestController } from '../testing.ts';
import { grants, self, teams, tokens, users } from './api.ts';
import { actForHeader } from './act-for.ts';
import type { Level } from './roles.ts';
import { isRuleName } from './rules.ts';
import { type Service, mayCall, serviceToken, services } from './service-token.ts';

/** Every route, and whom it is for: a route that is not written down here, or says something else, fails. */
const expected: Readonly<Record<string, string>> = {
  'POST /apps': 'cluster developer',
  'GET /apps': 'anybody',
  'GET /apps/:app': 'app viewer',
  'PATCH /apps/:app': 'app developer',
  'DELETE /apps/:app': 'app admin',
  'POST /artifacts': 'developer of some app',
  'GET /artifacts/:artifact': 'developer of some app',
  'POST /apps/:app/releases': 'app developer',
  'GET /apps/:app/releases': 'app viewer',
  'GET /apps/:app/releases/:release': 'app viewer',
  'GET /apps/:app/formations/:release': 'app viewer',
  'PUT /apps/:app/formations/:release': 'app developer',
  'DELETE /api/:group/:version/:kind/:name': 'anybody',
  'GET /api': 'anybody',
  'GET /api/:group/:version/:kind': 'anybody',
  'GET /api/:group/:version/:kind/:name': 'anybody',
  'GET /watch/:group/:version/:kind': 'anybody',
  'PATCH /api/:group/:version/:kind/:name': 'anybody',
  'POST /api/:group/:version/:kind': 'anybody',
  'PUT /api/:group/:version/:kind/:name': 'anybody',
  'PUT /api/:group/:version/:kind/:name/status': 'admin',
  'DELETE /apps/:app/releases/:release': 'app developer',
  'GET /apps/:app/exec': 'app developer',
  'GET /apps/:app/build-limits': 'app viewer',
  'PATCH /apps/:app/build-limits': 'app developer',
  'GET /apps/:app/source': 'app viewer',
  'PUT /apps/:app/source': 'app developer',
  'DELETE /apps/:app/source': 'app developer',
  'POST /apps/:app/source/poll': 'app developer',
  'GET /apps/:app/cron': 'app viewer',
  'POST /apps/:app/cron/:cron/pause': 'app developer',
  'POST /apps/:app/cron/:cron/resume': 'app developer',
  'POST /apps/:app/cron/:cron/run': 'app developer',
  'POST /deployments/:deployment/abort': 'app developer',
  'POST /deployments/:deployment/pause': 'app developer',
  'POST /deployments/:deployment/promote': 'app developer',
  'POST /deployments/:deployment/resume': 'app developer',
  'POST /apps/:app/deployments': 'app developer',
  'GET /apps/:app/deployments': 'app viewer',
  'GET /deployments/:deployment': 'app viewer',
  'GET /deployments/:deployment/events': 'app viewer',
  'GET /apps/:app/jobs': 'app viewer',
  'GET /apps/:app/jobs/:job': 'app viewer',
  'POST /apps/:app/jobs': 'app developer',
  'POST /apps/:app/builds': 'admin',
  'GET /apps/:app/jobs/:job/attach': 'app developer',
  'DELETE /apps/:app/jobs/:job': 'app developer',
  'POST /apps/:app/routes': 'app developer',
  'GET /apps/:app/routes': 'app viewer',
  'GET /apps/:app/routes/:route': 'app viewer',
  'PATCH /apps/:app/routes/:route': 'app developer',
  'DELETE /apps/:app/routes/:route': 'app developer',
  'POST /apps/:app/route-reach': 'app viewer',
  'GET /apps/:app/route-stats': 'app viewer',
  'PUT /apps/:app/maintenance': 'app developer',
  'DELETE /apps/:app/maintenance': 'app developer',
  'GET /routes/events': 'admin',
  'POST /certificates': 'developer of some app',
  'GET /certificates': 'anybody',
  'DELETE /certificates/:certificate': 'developer of some app',
  'GET /certificates/events': 'admin',
  'POST /certificate-requests': 'developer of some app',
  'PUT /certificate-authority': 'admin',
  'GET /certificate-authority': 'cluster viewer',
  'DELETE /certificate-authority': 'admin',
  'POST /keys': 'anybody',
  'GET /keys': 'anybody',
  'GET /keys/:fingerprint': 'admin',
  'DELETE /keys/:fingerprint': 'anybody',
  'POST /apps/:app/pushes': 'app developer',
  'GET /operations/:operation': 'app viewer',
  'GET /apps/:app/operations': 'app viewer',
  'POST /operations/:operation/cancel': 'app developer',
  'GET /operations/:operation/log': 'app viewer',
  'POST /runners/:runner/claim': 'admin',
  'POST /runners/:runner/operations/:operation/heartbeat': 'admin',
  'POST /runners/:runner/operations/:operation/lines': 'admin',
  'PUT /runners/:runner': 'admin',
  'GET /runners': 'cluster viewer',
  'GET /runners/:runner': 'cluster viewer',
  'DELETE /runners/:runner': 'admin',
  'POST /runners/:runner/adopt': 'admin',
  'POST /runners/:runner/reject': 'admin',
  'POST /runners/:runner/report': 'admin',
  'GET /operations': 'cluster viewer',
  'GET /artifacts/:artifact/layers/:digest': 'developer of some app',
  'GET /layers/:digest': 'developer of some app',
  'POST /layers': 'developer of some app',
  'POST /collections': 'admin',
  'GET /drains': 'anybody',
  'POST /drains': 'anybody',
  'DELETE /drains/:drain': 'anybody',
  'GET /log-feed': 'admin',
  'PATCH /operations/:operation': 'app developer',
  'POST /apps/:app/operations': 'app developer',
  'GET /apps/:app/log': 'app viewer',
  'GET /events': 'anybody',
  'GET /cluster': 'anybody',
  'GET /hosts': 'cluster viewer',
  'GET /hosts/:host': 'cluster viewer',
  'PATCH /hosts/:host/tags': 'admin',
  'PUT /hosts/:host/cordon': 'admin',
  'DELETE /hosts/:host/cordon': 'admin',
  'PUT /hosts/:host/drain': 'admin',
  'DELETE /hosts/:host/drain': 'admin',
  'DELETE /hosts/:host': 'admin',
  'POST /rebalance': 'admin',
  'GET /evaluations': 'anybody',
  'GET /evaluations/:evaluation': 'anybody',
  'POST /users': 'admin',
  'GET /users': 'cluster viewer',
  'GET /users/:user': 'cluster viewer',
  'PATCH /users/:user': 'admin',
  'DELETE /users/:user': 'admin',
  'POST /teams': 'admin',
  'GET /teams': 'cluster viewer',
  'PATCH /teams/:team': 'admin',
  'DELETE /teams/:team': 'admin',
  'PUT /teams/:team/members/:user': 'admin',
  'DELETE /teams/:team/members/:user': 'admin',
  'GET /apps/:app/access': 'app viewer',
  'PUT /apps/:app/access/:kind/:name': 'app admin',
  'DELETE /apps/:app/access/:kind/:name': 'app admin',
  'POST /tokens': 'anybody',
  'GET /tokens': 'anybody',
  'DELETE /tokens/:token': 'anybody',
  'GET /whoami': 'anybody',
  'GET /audit': 'anybody',
  'GET /openapi.json': 'open',
  'GET /login': 'open',
  'POST /login': 'open',
};

const ranks: Readonly<Record<Level, number>> = { none: 0, viewer: 1, developer: 2, admin: 3 };

type Person = { token: string; cluster: Level; shop: Level; most: Level };

let world: TestController;
let all: readonly Route[];
/** Those that the gate is asked about. */
let routes: readonly Route[];
let ids: { shop: string; other: string; deployment: string; operation: string };
const people = new Map<string, Person>();
const refused = new Map<string, string>();

const testKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';

before(async () => {
  world = await startTestController();
  const { client } = world;
  const { app: shop, deployment } = await world.deployApp('shop', { web: {} });
  const other = await client.call(apps.create, { body: { name: 'other' } });
  await client.call(apps.create, { body: { name: 'router', isSystem: true } });
  const body = { pushId: 'p1', sourceDigest: 'sha256:x', commit: 'c', branch: 'main' };
  const [operation] = await client.call(operations.push, { params: { app: 'shop' }, body });
  ids = { shop: shop.id, other: other.id, deployment: deployment.id, operation: operation?.id ?? '' };
  all = world.web.handlers.map(({ route }) => route);
  routes = all.filter(({ access }) => access !== 'open');

  const levels = { viewer: 'viewer', developer: 'developer', admin: 'admin' } as const;
  await person('nobody', {}, { cluster: 'none', shop: 'none', most: 'none' });
  for (const role of Object.values(levels)) {
    await person(`cluster-${role}`, { role }, { cluster: role, shop: role, most: role });
    await person(`shop-${role}`, {}, { cluster: 'none', shop: role, most: role });
    await grant('shop', 'user', `shop-${role}`, role);
    await person(`foreign-${role}`, {}, { cluster: 'none', shop: 'none', most: role });
    await grant('other', 'user', `foreign-${role}`, role);
    await client.call(teams.create, { body: { name: role } });
    await person(`team-${role}`, {}, { cluster: 'none', shop: role, most: role });
    await client.call(teams.addMember, { params: { team: role, user: `team-${role}` } });
    await grant('shop', 'team', role, role);
    await narrow(`admin-as-${role}`, { role }, { cluster: role, shop: role, most: role });
    await narrow(`admin-as-${role}-of-other`, { role, apps: ['other'] }, { cluster: 'none', shop: 'none', most: role });
    await narrow(`admin-as-${role}-of-shop`, { role, apps: ['shop'] }, { cluster: 'none', shop: role, most: role });
  }
  await person(
    'viewer-and-shop-developer',
    { role: 'viewer' },
    { cluster: 'viewer', shop: 'developer', most: 'developer' },
  );
  await grant('shop', 'user', 'viewer-and-shop-developer', 'developer');
  people.set('root', { token: world.userKey, cluster: 'admin', shop: 'admin', most: 'admin' });

  const gone = await client.call(tokens.create, { body: { name: 'gone' } });
  await client.call(tokens.revoke, { params: { token: gone.id } });
  refused.set('a revoked token', gone.token);
  const brief = await client.call(tokens.create, { body: { name: 'brief', expiresInMs: 1_000 } });
  await waitFor(() => Date.now() > Date.parse(brief.expiresAt ?? ''), {
    what: 'its end',
    deadlineMs: 5_000,
    intervalMs: 50,
  });
  refused.set('an expired token', brief.token);
  await client.call(users.create, { body: { name: 'left' } });
  const left = await client.call(tokens.create, { body: { name: 'of one who left', user: 'left' } });
  await client.call(users.remove, { params: { user: 'left' } });
  refused.set('the token of a user who is gone', left.token);
  const real = people.get('cluster-admin')?.token ?? '';
  refused.set('a good id with another secret', real.slice(0, -3) + (real.endsWith('AAA') ? 'BBB' : 'AAA'));
  refused.set('a token of nobody', `flynn_aaaaaaaaaaaa_${'A'.repeat(43)}`);
  refused.set('something else', 'x');
  refused.set('a service token of another cluster', serviceToken('another root key', 'runner'));
});

after(async () => {
  await world?.[Symbol.asyncDispose]();
});

async function person(
  name: string,
  body: { role?: 'viewer' | 'developer' | 'admin' },
  levels: Omit<Person, 'token'>,
): Promise<void> {
  await world.client.call(users.create, { body: { name, ...body } });
  const { token } = await world.client.call(tokens.create, { body: { name: 'test', user: name } });
  people.set(name, { token, ...levels });
}

/** A token that is good for less than who has it, made with the one that is good for all. */
async function narrow(
  name: string,
  body: { role: 'viewer' | 'developer' | 'admin'; apps?: string[] },
  levels: Omit<Person, 'token'>,
): Promise<void> {
  const admin = people.get('cluster-admin');
  const made = await world.client.call(tokens.create, {
    body: { name, ...body, ...(admin === undefined ? {} : { user: 'cluster-admin' }) },
  });
  people.set(name, { token: made.token, ...levels });
}

async function grant(app: string, kind: string, name: string, role: 'viewer' | 'developer' | 'admin'): Promise<void> {
  await world.client.call(grants.put, { params: { app, kind, name }, body: { role } });
}

const nameOf = (route: Route): string => `${route.method} ${route.path}`;

function clientOf(token: string): HttpClient {
  return createControllerClient({ baseUrl: world.url, key: token });
}

async function knock(
  route: Route,
  token: string | undefined,
  more: { app?: string; headers?: Record<string, string> } = {},
): Promise<'in' | FlynnError> {
  const own: Record<string, string> = { app: more.app ?? 'shop', deployment: ids.deployment, operation: ids.operation };
  const params = Object.fromEntries(route.params.map((name) => [name, own[name] ?? 'x']));
  const headers = { ...(token === undefined ? {} : { authorization: `Bearer ${token}` }), ...more.headers };
  const request = { route, params, headers, remoteAddress: '', requestId: 'r', signal: AbortSignal.timeout(10_000) };
  try {
    await world.web.gate(request);
    return 'in';
  } catch (error) {
    if (error instanceof FlynnError) return error;
    throw error;
  }
}

function isAllowed(rule: string, { cluster, shop, most }: Omit<Person, 'token'>): boolean {
  if (rule === 'anybody') return true;
  const [of = '', role = ''] = rule.split(' ');
  if (rule === 'developer of some app') return ranks[most] >= ranks.developer;
  const needed = ranks[role === '' ? 'admin' : (role as Level)];
  return ranks[of === 'app' ? shop : cluster] >= needed;
}

test('every route is written down with whom it is for', () => {
  const actual = Object.fromEntries(
    all.map((route) => [nameOf(route), isRuleName(route.access) || route.access === 'open' ? route.access : 'admin']),
  );
  assert.deepEqual(actual, expected);
});

test('every route × every role, grant and scope: who may is let in, who may not is refused', async () => {
  let judged = 0;
  for (const route of routes) {
    for (const [name, person] of people) {
      const outcome = await knock(route, person.token);
      const rule = expected[nameOf(route)] ?? '';
      const what = `${name} at ${nameOf(route)} (${rule}): ${outcome === 'in' ? 'in' : outcome.message}`;
      judged += 1;
      if (isAllowed(rule, person)) {
        assert.equal(outcome, 'in', what);
        continue;
      }
      assert.ok(outcome instanceof FlynnError, what);
      // Who may not see the app is told that there is none.
      const code = rule.startsWith('app ') && person.shop === 'none' ? 'not_found' : 'denied';
      assert.equal(outcome.code, code, what);
    }
  }
  assert.equal(judged, routes.length * people.size);
  assert.ok(people.size > 20 && routes.length > 60);
});

test('every route refuses who is not known: without a token, with one revoked, expired, made up or of somebody gone', async () => {
  for (const route of routes) {
    for (const [what, token] of [['nothing', undefined] as const, ...refused]) {
      const outcome = await knock(route, token);
      assert.ok(hasCode(outcome, 'unauthenticated'), `${what} at ${nameOf(route)}`);
    }
  }
});

test('every route × every part of the platform: each gets in where it has to and nowhere else', async () => {
  const needs: Record<Service, string[]> = {
    router: ['GET /routes/events', 'GET /certificates/events'],
    'log-aggregator': ['GET /log-feed'],
    'git-receiver': [
      'GET /apps',
      'GET /apps/:app',
      'GET /keys/:fingerprint',
      'GET /operations/:operation/log',
      'POST /apps/:app/pushes',
      'POST /operations/:operation/cancel',
    ],
    runner: [
      'GET /apps/:app',
      'GET /apps/:app/formations/:release',
      'GET /apps/:app/jobs/:job',
      'GET /apps/:app/jobs/:job/attach',
      'GET /apps/:app/releases',
      'GET /apps/:app/releases/:release',
      'GET /apps/:app/routes',
      'GET /artifacts/:artifact',
      'GET /cluster',
      'GET /deployments/:deployment',
      'GET /deployments/:deployment/events',
      'GET /operations/:operation',
      'DELETE /apps/:app/jobs/:job',
      'POST /apps/:app/builds',
      'POST /apps/:app/deployments',
      'POST /apps/:app/releases',
      'POST /artifacts',
      'POST /runners/:runner/claim',
      'POST /runners/:runner/operations/:operation/heartbeat',
      'POST /runners/:runner/operations/:operation/lines',
      'POST /runners/:runner/report',
      'PUT /runners/:runner',
      'PUT /apps/:app/formations/:release',
    ],
  };
  const ofAll: string[] = [];
  for (const service of services) {
    const found = routes.filter((route) => mayCall(service, route)).map(nameOf);
    assert.deepEqual(found.sort(), needs[service].sort());
    ofAll.push(...found);
    for (const route of routes) {
      const outcome = await knock(route, serviceToken(world.userKey, service));
      const isPersons = service === 'git-receiver' && route.method === 'POST';
      if (needs[service].includes(nameOf(route)) && !isPersons)
        assert.equal(outcome, 'in', `${service} at ${nameOf(route)}`);
      else assert.ok(hasCode(outcome, 'denied'), `${service} at ${nameOf(route)}`);
    }
  }
  for (const route of routes) {
    const outcome = await knock(route, world.key);
    if (ofAll.includes(nameOf(route))) assert.equal(outcome, 'in', nameOf(route));
    else assert.ok(hasCode(outcome, 'denied'), nameOf(route));
  }
});

test('a push is the act of whom the SSH key belongs to, and needs developer on the app', async () => {
  const receiver = serviceToken(world.userKey, 'git-receiver');
  const push = operations.push;
  for (const name of ['shop-developer', 'shop-viewer', 'foreign-developer']) {
    await using client = clientOf(people.get(name)?.token ?? '');
    const key = await client.call(keys.create, { body: { publicKey: `${testKey} ${name}` } });
    const outcome = await knock(push, receiver, { headers: { [actForHeader]: key.fingerprint } });
    if (name === 'shop-developer') assert.equal(outcome, 'in');
    else assert.ok(hasCode(outcome, name === 'shop-viewer' ? 'denied' : 'not_found'), name);
    await client.call(keys.remove, { params: { fingerprint: key.fingerprint } });
    assert.ok(hasCode(await knock(push, receiver, { headers: { [actForHeader]: key.fingerprint } }), 'denied'));
  }
  const rootKey = await world.client.call(keys.create, { body: { publicKey: testKey } });
  assert.equal(await knock(push, receiver, { headers: { [actForHeader]: rootKey.fingerprint } }), 'in');
  // A person has no use for the header: they are who their token says.
  const viewer = people.get('shop-viewer')?.token;
  assert.ok(hasCode(await knock(push, viewer, { headers: { [actForHeader]: rootKey.fingerprint } }), 'denied'));
});

test("below an admin nobody changes the platform's own apps, nor reads their variables", async () => {
  const developer = people.get('cluster-developer')?.token;
  for (const route of routes.filter(
    ({ path, access: rule }) => path.startsWith('/apps/:app') && rule !== 'app viewer',
  )) {
    assert.ok(hasCode(await knock(route, developer, { app: 'router' }), 'denied'), nameOf(route));
    assert.equal(await knock(route, world.userKey, { app: 'router' }), 'in');
  }
  assert.equal(await knock(apps.get, developer, { app: 'router' }), 'in');
  await assert.rejects(grant('router', 'user', 'nobody', 'developer'), (error) => hasCode(error, 'denied'));
  const params = { app: 'router' };
  await world.client.call(releases.create, {
    params,
    body: { env: { FLYNN_KEY: 'secret1' }, processes: { web: { env: { B: 'secret2' } } } },
  });
  await using client = clientOf(developer ?? '');
  const shown = await client.call(releases.get, { params: { ...params, release: 'v1' } });
  assert.deepEqual(shown.env, { FLYNN_KEY: '[hidden]' });
  const all = await client.call(releases.list, { params });
  assert.doesNotMatch(JSON.stringify([shown, all]), /secret/);
  assert.equal(
    (await world.client.call(releases.get, { params: { ...params, release: 'v1' } })).env['FLYNN_KEY'],
    'secret1',
  );
});

test('lists show only what the caller may see', async () => {
  const namesFor = async (name: string): Promise<string[]> => {
    await using client = clientOf(people.get(name)?.token ?? '');
    return (await client.call(apps.list, {})).map((app) => app.name);
  };
  assert.deepEqual(await namesFor('root'), ['other', 'router', 'shop']);
  assert.deepEqual(await namesFor('cluster-viewer'), ['other', 'router', 'shop']);
  assert.deepEqual(await namesFor('shop-viewer'), ['shop']);
  assert.deepEqual(await namesFor('foreign-admin'), ['other']);
  assert.deepEqual(await namesFor('admin-as-developer-of-other'), ['other']);
  assert.deepEqual(await namesFor('nobody'), []);
});

async function eventsOf(name: string): Promise<{ event: string; text: string }[]> {
  const ended = new AbortController();
  const seen: { event: string; text: string }[] = [];
  await using client = clientOf(people.get(name)?.token ?? '');
  for await (const { event, data } of client.events(platform.events, {}, { signal: ended.signal })) {
    if (event === 'current') break;
    seen.push({ event, text: JSON.stringify(data) });
  }
  return seen;
}

test('the stream of changes tells each only of their apps, and no variables to those who only look', async () => {
  const params = { app: 'shop' };
  await world.client.call(releases.create, { params, body: { env: { PASSWORD: 'hunter2' } } });
  const all = await eventsOf('root');
  assert.ok(all.some(({ text }) => text.includes(ids.other)) && all.some(({ text }) => text.includes('hunter2')));
  const viewer = await eventsOf('shop-viewer');
  assert.ok(viewer.some(({ event }) => event === 'release') && viewer.some(({ event }) => event === 'job'));
  assert.ok(viewer.every(({ text }) => !text.includes('hunter2') && !text.includes(ids.other)));
  assert.ok((await eventsOf('shop-developer')).some(({ text }) => text.includes('hunter2')));
  assert.deepEqual(await eventsOf('nobody'), []);
  await using foreign = clientOf(people.get('foreign-viewer')?.token ?? '');
  const asked = foreign.events(platform.events, { query: { app: 'shop' } }, { signal: AbortSignal.timeout(5_000) });
  await assert.rejects(asked.next(), (error) => hasCode(error, 'not_found'));
});

test('a grant counts at once, also for who was refused a moment ago; taken back, it counts no more', async () => {
  const token = people.get('nobody')?.token;
  assert.ok(hasCode(await knock(apps.update, token), 'not_found'));
  await grant('shop', 'user', 'nobody', 'developer');
  assert.equal(await knock(apps.update, token), 'in');
  await world.client.call(grants.remove, { params: { app: 'shop', kind: 'user', name: 'nobody' } });
  await waitFor(async () => hasCode(await knock(apps.update, token), 'not_found'), {
    what: 'the refusal',
    deadlineMs: 5_000,
    intervalMs: 5,
  });
});

test('a stream that is open ends when its token is taken back', async () => {
  const made = await world.client.call(tokens.create, { body: { name: 'stream' } });
  await using client = clientOf(made.token);
  const stream = client.events(routing.events, {}, { signal: AbortSignal.timeout(20_000) });
  await stream.next();
  await world.client.call(tokens.revoke, { params: { token: made.token } });
  for await (const _event of stream);
  await assert.rejects(client.call(self.get, {}), (error) => hasCode(error, 'unauthenticated'));
});

test('a token makes no token wider than itself', async () => {
  await using viewer = clientOf(people.get('admin-as-viewer')?.token ?? '');
  await assert.rejects(viewer.call(tokens.create, { body: { name: 'x', role: 'admin' } }), (error) =>
    hasCode(error, 'denied'),
  );
  await using ofOther = clientOf(people.get('admin-as-admin-of-other')?.token ?? '');
  await assert.rejects(ofOther.call(tokens.create, { body: { name: 'x', apps: ['shop'] } }), (error) =>
    hasCode(error, 'not_found'),
  );
  const same = await ofOther.call(tokens.create, { body: { name: 'x' } });
  assert.deepEqual(same.apps, ['other']);
  const own = await ofOther.call(tokens.list, {});
  assert.equal(own.length, 1, 'a narrow token sees itself only');
  await using developer = clientOf(people.get('cluster-developer')?.token ?? '');
  await assert.rejects(developer.call(tokens.create, { body: { name: 'x', user: 'cluster-admin' } }), (error) =>
    hasCode(error, 'denied'),
  );
  await assert.rejects(developer.call(tokens.revoke, { params: { token: same.id } }), (error) =>
    hasCode(error, 'not_found'),
  );
});

test('nothing in the store opens anything: of tokens there are only hashes', async () => {
  const { entries } = await world.store.list('/');
  const secrets = [...people.values()].map(({ token }) => token.replace(/^flynn_[a-z0-9]{12}_/, ''));
  assert.ok(secrets.every((secret) => secret.length >= 10));
  const found = entries.filter(({ value }) => secrets.some((secret) => value.includes(secret)));
  assert.deepEqual(
    found.map(({ key }) => key),
    [],
  );
});

test("apps get neither the host's network nor its paths nor privileges; the platform's own do", async () => {
  const params = { app: 'shop' };
  const withNetwork = { params, body: { processes: { web: { hostNetwork: true } } } };
  await assert.rejects(world.client.call(releases.create, withNetwork), (error) => hasCode(error, 'denied'));
  const volumes = [{ name: 'cache', path: '/cache', isShared: true }];
  const sharing = { body: { processes: { web: { volumes } } } };
  await assert.rejects(world.client.call(releases.create, { ...sharing, params: { app: 'shop' } }), (error) =>
    hasCode(error, 'denied'),
  );
  await world.client.call(releases.create, { ...sharing, params: { app: 'router' } });
  await world.client.call(releases.create, { ...withNetwork, params: { app: 'router' } });
  for (const more of [{ privileged: true }, { mounts: ['/:/host'] }, { capabilities: ['SYS_ADMIN'] }]) {
    const body = JSON.stringify({ processes: { web: more } });
    const headers = { authorization: `Bearer ${world.userKey}`, 'content-type': 'application/json' };
    const answer = await fetch(`${world.url}/apps/shop/releases`, { method: 'POST', headers, body });
    assert.equal(answer.status, 400);
    assert.match(await answer.text(), /fields it does not know: processes\.web\./);
  }
  for (const name of ['/etc', '../etc', 'a/b']) {
    const volume = { processes: { web: { volumes: [{ name, path: '/data' }] } } };
    await assert.rejects(world.client.call(releases.create, { params, body: volume }), (error) =>
      hasCode(error, 'invalid'),
    );
  }
});

test('who makes an app is its admin', async () => {
  await using client = clientOf(people.get('cluster-developer')?.token ?? '');
  await client.call(apps.create, { body: { name: 'mine' } });
  assert.deepEqual(
    (await client.call(grants.list, { params: { app: 'mine' } })).map(({ name, role }) => ({ name, role })),
    [{ name: 'cluster-developer', role: 'admin' }],
  );
  await assert.rejects(client.call(apps.remove, { params: { app: 'shop' } }), (error) => hasCode(error, 'denied'));
  await client.call(apps.remove, { params: { app: 'mine' } });
  const { entries } = await world.store.list('/flynn/resource/grant/');
  assert.ok(
    entries.every(({ value }) => !value.includes('"admin"') || value.includes(ids.shop) || value.includes(ids.other)),
  );
  await assert.rejects(client.call(apps.create, { body: { name: 'mine2', isSystem: true } }), (error) =>
    hasCode(error, 'denied'),
  );
});

test('deployments are shown to those who may see their app', async () => {
  await using viewer = clientOf(people.get('shop-viewer')?.token ?? '');
  assert.equal((await viewer.call(deployments.get, { params: { deployment: ids.deployment } })).id, ids.deployment);
  await using foreign = clientOf(people.get('foreign-admin')?.token ?? '');
  await assert.rejects(
    foreign.call(deployments.get, { params: { deployment: ids.deployment } }),
    /there is no deployment/,
  );
});
