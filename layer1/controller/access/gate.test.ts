import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { FlynnError, hasCode } from '@flynn/kit/errors';
import { apps, releases } from '../api.ts';
import { keys } from '../keys/api.ts';
import { layers } from '../collection/api-layers.ts';
import { operations } from '../operations/api.ts';
import { actForHeader } from './act-for.ts';
import { isRuleName } from './rules.ts';
import { type Service, mayCall, serviceToken, services } from './service-token.ts';
import { isAllowed, nameOf, startGateWorld } from './gate-fixture.ts';
import type { GateWorld } from './gate-fixture.ts';
import { expected } from './gate-table.ts';

let world: GateWorld['world'];
let all: GateWorld['all'];
let routes: GateWorld['routes'];
let people: GateWorld['people'];
let refused: GateWorld['refused'];
let grant: GateWorld['grant'];
let clientOf: GateWorld['clientOf'];
let knock: GateWorld['knock'];

before(async () => {
  ({ world, all, routes, people, refused, grant, clientOf, knock } = await startGateWorld());
});
after(async () => {
  await world?.[Symbol.asyncDispose]();
});

const testKey = 'ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl';

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
      'GET /apps/:app/deployments',
      'GET /keys/:fingerprint',
      'GET /operations/:operation/log',
      'POST /apps/:app/pushes',
      'POST /operations/:operation/cancel',
    ],
    runner: [
      'GET /apps/:app',
      'GET /apps/:app/deployments',
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
      'GET /operations/:operation/missing-layers',
      'DELETE /apps/:app/jobs/:job',
      'POST /apps/:app/builds',
      'POST /apps/:app/deployments',
      'POST /apps/:app/releases',
      'POST /artifacts',
      'POST /deployments/:deployment/abort',
      'GET /runners/:runner/blobs/:digest',
      'GET /runners/:runner/blobs/:digest/stat',
      'GET /runners/:runner/named-blob',
      'POST /runners/:runner/blobs',
      'POST /runners/:runner/claim',
      'POST /runners/:runner/env',
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

test('the cluster key opens nothing to whom a router passes on, and to a part with a certificate not what others need', async () => {
  const peer = 'flynn:app/router';
  for (const shown of [peer, 'flynn:app/slug-builder', 'flynn:app/blobstore', 'flynn:app/runner', 'flynn:host/h1']) {
    for (const route of routes) {
      const outcome = await knock(route, world.key, { peer: shown });
      const isOfBuilds = shown === 'flynn:app/slug-builder' && route === layers.missing;
      if (isOfBuilds) assert.equal(outcome, 'in');
      else assert.ok(hasCode(outcome, 'unauthenticated'), `${shown} at ${nameOf(route)}`);
    }
  }
  const events = routes.find((route) => nameOf(route) === 'GET /routes/events');
  assert.ok(events);
  assert.equal(await knock(events, serviceToken(world.userKey, 'router'), { peer }), 'in');
  assert.equal(await knock(events, world.userKey, { peer }), 'in', 'people');
});

test('a part’s token opens to that part alone, which asks by itself: not by way of a router, nor to another part', async () => {
  for (const service of services) {
    const token = serviceToken(world.userKey, service);
    const route = routes.find((one) => mayCall(service, one) && one.method === 'GET');
    assert.ok(route);
    for (const peer of [undefined, `flynn:app/${service}`]) {
      const own = peer === undefined ? {} : { peer };
      assert.equal(await knock(route, token, own), 'in', `${service} as ${peer}`);
      const headers = { 'x-forwarded-for': '203.0.113.9' };
      assert.ok(
        hasCode(await knock(route, token, { ...own, headers }), 'unauthenticated'),
        `${service} through a router`,
      );
    }
    for (const peer of ['router', 'blobstore', 'git-receiver'].filter((app) => app !== service)) {
      const outcome = await knock(route, token, { peer: `flynn:app/${peer}` });
      assert.ok(hasCode(outcome, 'unauthenticated'), `${service} as ${peer}`);
    }
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
