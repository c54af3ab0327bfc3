import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { askingOf, checkOrigin } from './asking.ts';

const headers = { host: 'Dashboard.example.com', 'x-forwarded-for': '192.0.2.7', 'x-forwarded-proto': 'https' };
const router = { headers, remoteAddress: '10.1.0.3', peer: 'flynn:app/router' };
const inCluster = { isEverybodyKnown: true };
const denied = (error: unknown) => hasCode(error, 'denied');

test('browsers come by way of the router, which says who they are', () => {
  assert.deepEqual(askingOf(router, inCluster), {
    address: '192.0.2.7',
    host: 'dashboard.example.com',
    isSecure: true,
  });
  for (const peer of [undefined, 'flynn:app/runner', 'flynn:host/h1']) {
    assert.throws(() => askingOf({ ...router, peer }, inCluster), denied, peer);
  }
  // A router of a version before shows none, as long as there may be such.
  assert.equal(askingOf({ ...router, peer: undefined }, { isEverybodyKnown: false }).address, '192.0.2.7');
  assert.throws(() => askingOf({ ...router, peer: 'flynn:app/runner' }, { isEverybodyKnown: false }), denied);
});

test('of the addresses that a request names only the last is the router’s word', () => {
  for (const [given, address] of [
    ['6.6.6.6, 192.0.2.9', '192.0.2.9'],
    ['192.0.2.9, ', '10.1.0.3'],
    ['<script>', '10.1.0.3'],
    ['x,[2001:db8::1]:443', '2001:db8::1'],
    ['::ffff:192.0.2.9', '192.0.2.9'],
  ] as const) {
    const asked = { ...router, headers: { ...headers, 'x-forwarded-for': given } };
    assert.equal(askingOf(asked, inCluster).address, address, given);
  }
  // Behind a proxy that the router trusts it is the person whom that names, and not the proxy for everybody.
  const behind = { ...headers, 'x-forwarded-for': '6.6.6.6, 192.0.2.9, 10.0.0.1', 'x-flynn-client': '192.0.2.9' };
  assert.equal(askingOf({ ...router, headers: behind }, inCluster).address, '192.0.2.9');
});

test('outside of a cluster it answers to the names of this machine, and believes nobody', () => {
  const asked = (host: string) => askingOf({ ...router, headers: { ...headers, host }, peer: undefined }, undefined);
  for (const host of ['localhost:8080', '127.0.0.1:8080', '[::1]:8080', 'dashboard.localhost']) {
    assert.deepEqual(asked(host), { address: '10.1.0.3', host, isSecure: false });
  }
  for (const host of ['example.com', 'localhost.example.com', 'dashboard.example.com:8080', '10.0.0.1']) {
    assert.throws(() => asked(host), denied, host);
  }
});

test('a host that could not be one is refused: it is written into headers', () => {
  for (const host of ['', 'a b', 'a;b', "a'b", 'a/b', 'user@a', 'a:b', 'a\tb', '-', 'a'.repeat(300), 'a:1:2']) {
    assert.throws(
      () => askingOf({ ...router, headers: { ...headers, host } }, inCluster),
      (error) => hasCode(error, 'invalid'),
      host,
    );
  }
});

test('only pages of our own have something carried out, and others read nothing', () => {
  const asking = { address: '192.0.2.7', host: 'dashboard.example.com', isSecure: true };
  const outcome = (headers: Record<string, string>, isChange: boolean) => {
    try {
      checkOrigin(asking, headers, { isChange });
      return 'in';
    } catch (error) {
      assert.ok(denied(error));
      return 'denied';
    }
  };
  const own = 'https://dashboard.example.com';
  for (const [change, reading, headers] of [
    ['in', 'in', { origin: own, 'sec-fetch-site': 'same-origin' }],
    ['in', 'in', { origin: own }],
    ['denied', 'in', {}],
    ['denied', 'in', { 'sec-fetch-site': 'same-origin' }],
    ['denied', 'in', { 'sec-fetch-site': 'none' }],
    ['denied', 'denied', { origin: 'https://evil.example.com', 'sec-fetch-site': 'same-site' }],
    ['denied', 'denied', { 'sec-fetch-site': 'same-site' }],
    ['denied', 'denied', { 'sec-fetch-site': 'cross-site' }],
    ['denied', 'denied', { origin: own, 'sec-fetch-site': 'same-site' }],
    ['denied', 'denied', { origin: 'http://dashboard.example.com' }],
    ['denied', 'denied', { origin: `${own}:8443` }],
    ['denied', 'denied', { origin: `${own}.evil.com` }],
    ['denied', 'denied', { origin: `https://evil.com@dashboard.example.com` }],
    ['denied', 'denied', { origin: 'null' }],
    ['denied', 'denied', { origin: '' }],
  ] as const) {
    assert.equal(outcome(headers, true), change, JSON.stringify(headers));
    assert.equal(outcome(headers, false), reading, JSON.stringify(headers));
  }
  checkOrigin({ ...asking, isSecure: false }, { origin: own }, { isChange: true });
});
