import assert from 'node:assert/strict';
import { test } from 'node:test';
import { FlynnError } from '@flynn/kit/errors';
import { routeSchema } from '../model.ts';
import { changedHttp, changedTcp, routeIssues } from './rules.ts';
import { httpChangeSchema, httpSettingsSchema, tcpChangeSchema, tcpSettingsSchema } from './settings.ts';
import type { HttpChange, TcpChange } from './settings.ts';

const http = httpSettingsSchema.parse({});
const tcp = tcpSettingsSchema.parse({});

const issuesOf = (change: HttpChange, where: { domain?: string; path?: string } = {}) =>
  routeIssues({ type: 'http', domain: 'a.test', path: '/', ...where, http: changedHttp(http, change), tcp }).map(
    ({ path }) => path,
  );

test('settings that contradict each other or the route are named, each at its field', () => {
  const wrong: readonly [HttpChange, string, { path?: string }?][] = [
    [{ stripPath: true }, 'http.stripPath'],
    [{ leader: true, sticky: true }, 'http.sticky'],
    [{ leader: true, weights: [{ release: 'r', weight: 1 }] }, 'http.weights'],
    [{ weights: [{ release: 'r', weight: 0 }] }, 'http.weights'],
    [{ weights: ['r', 'r'].map((release) => ({ release, weight: 1 })) }, 'http.weights'],
    [{ releaseAffinity: true }, 'http.releaseAffinity'],
    [{ limits: { burst: 3 } }, 'http.limits.burst'],
    [{ limits: { connections: 3, connectionsPerClient: 4 } }, 'http.limits.connectionsPerClient'],
    [{ timeouts: { totalMs: 10, firstByteMs: 20 } }, 'http.timeouts.firstByteMs'],
    [{ https: { hstsSeconds: 60 } }, 'http.https.hstsSeconds'],
    [{ https: { hstsSubdomains: true } }, 'http.https.hstsSubdomains'],
    [{ canonicalHost: 'A.test.' }, 'http.canonicalHost'],
    [{ maintenance: { allow: ['10.0.0.0/8', '10.0.0.1', '::1/64', '10.0.0.0/33'] } }, 'http.maintenance.allow.3'],
    [{ pages: Object.fromEntries([500, 501, 502, 503, 504].map((code) => [code, 'x'.repeat(60_000)])) }, 'http.pages'],
  ];
  for (const [change, path] of wrong) assert.deepEqual(issuesOf(change), [path], JSON.stringify(change).slice(0, 80));
  assert.deepEqual(issuesOf({ stripPath: true }, { path: '/api' }), []);
  assert.deepEqual(issuesOf({ https: { redirect: true, hstsSeconds: 60, hstsSubdomains: true } }), []);
});

test('settings of the other type of route are refused', () => {
  const route = { type: 'tcp' as const, path: '/', port: 25, tcp };
  assert.deepEqual(routeIssues({ ...route, http }), []);
  assert.deepEqual(
    routeIssues({ ...route, http: { ...http, sticky: true } }).map(({ path }) => path),
    ['http'],
  );
  const other = { type: 'http' as const, domain: 'a.test', path: '/', http, tcp: { ...tcp, idleMs: 5 } };
  assert.deepEqual(
    routeIssues(other).map(({ path }) => path),
    ['tcp'],
  );
});

test('what is left out stays, null takes a setting back, pages one by one, lists as a whole', () => {
  const set = changedHttp(http, {
    sticky: true,
    limits: { bodyBytes: 10, requestsPerSecond: 5 },
    pages: { '503': 'a', '5xx': 'b' },
    maintenance: {},
    weights: [{ release: 'r1', weight: 1 }],
  });
  assert.deepEqual(set.maintenance, { allow: [] });
  const next = changedHttp(set, {
    limits: { bodyBytes: null },
    pages: { '503': null, maintenance: 'c' },
    maintenance: null,
    weights: [{ release: 'r2', weight: 2 }],
    timeouts: undefined,
  });
  assert.equal(next.sticky, true);
  assert.deepEqual(next.limits, { requestsPerSecond: 5 });
  assert.deepEqual(next.pages, { '5xx': 'b', maintenance: 'c' });
  assert.deepEqual(next.weights, [{ release: 'r2', weight: 2 }]);
  assert.equal(next.maintenance, undefined);
  const back = Object.fromEntries(Object.keys(httpChangeSchema.shape).map((name) => [name, null]));
  assert.deepEqual(changedHttp(set, httpChangeSchema.parse(back)), http);
  assert.deepEqual(changedHttp(set, {}), set);
});

test('host names get their one form; those that stand for many, or that nobody asks for, are refused', () => {
  assert.equal(changedHttp(http, { canonicalHost: 'WWW.a.test.' }).canonicalHost, 'www.a.test');
  assert.equal(changedTcp(tcp, { serverName: 'DB.a.test' }).serverName, 'db.a.test');
  const refused = (act: () => unknown, path: string) =>
    assert.throws(act, (error) => error instanceof FlynnError && error.message.includes(path), path);
  for (const canonicalHost of ['*.a.test', '*', 'a b', 'x:80']) {
    refused(() => changedHttp(http, { canonicalHost }), 'http.canonicalHost');
  }
  for (const serverName of ['*', '[::1]', 'a/b']) refused(() => changedTcp(tcp, { serverName }), 'tcp.serverName');
});

test('what is asked for is read strictly, what is stored or told is not', () => {
  for (const bad of [{ sticki: true }, { limits: { bodybytes: 1 } }, { pages: { '200': 'x' } }, { protocol: 'h3' }]) {
    assert.ok(!httpChangeSchema.safeParse(bad).success, JSON.stringify(bad));
  }
  const wrongTcp: Record<keyof TcpChange, unknown> = { leader: 1, serverName: 1, proxyProtocol: 'v3', idleMs: 0 };
  for (const [name, value] of Object.entries(wrongTcp)) {
    assert.ok(!tcpChangeSchema.safeParse({ [name]: value }).success, name);
  }
  const told = { id: 'r', appId: 'a', type: 'http', domain: 'a.test', service: 'web', createdAt: '', later: 1 };
  const route = routeSchema.parse({ ...told, http: { ...http, ofALaterVersion: true, limits: { other: 1 } } });
  assert.deepEqual(route.http, http);
});
