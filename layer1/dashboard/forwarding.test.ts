import assert from 'node:assert/strict';
import { test } from 'node:test';
import { hasCode } from '@flynn/kit/errors';
import { headersBack, headersFor, targetOf } from './forwarding.ts';

test('the path and the query go on as they were written', () => {
  for (const [url, target] of [
    ['/api', '/'],
    ['/api/', '/'],
    ['/api?x=1', '/?x=1'],
    ['/api/apps', '/apps'],
    [
      '/api/apps/shop%2Fx/routes/shop.example.com%2Fblog?wait=1&q=%20',
      '/apps/shop%2Fx/routes/shop.example.com%2Fblog?wait=1&q=%20',
    ],
    ['/api/api/flynn/v1/App', '/api/flynn/v1/App'],
    ['/api/apps/...', '/apps/...'],
    ['/api/apps?url=../..&json={"a":[1]}', '/apps?url=../..&json={"a":[1]}'],
  ] as const) {
    assert.equal(targetOf(url), target);
  }
});

test('what means another path than it says goes nowhere', () => {
  for (const url of [
    '/api/..',
    '/api/../session',
    '/api/./apps',
    '/api/apps/%2e%2E/users',
    '/api/apps/.%2e/users',
    '/api/apps/%2e',
    '/api\\apps',
    '/api/apps\\..\\users',
    '/api@evil.example.com/',
    '/api:80/apps',
    '/apix/apps',
    '/API/apps',
    '//api/apps',
    'http://evil.example.com/api/apps',
    '/api/apps#x',
    '/api/apps x',
    '/api/apps\t',
    '/api/ä',
    '/api/apps?x=\u0000',
  ]) {
    assert.throws(
      () => targetOf(url),
      (error) => hasCode(error, 'invalid'),
      url,
    );
  }
});

test('of the browser’s headers the controller gets what its API reads, and our word for where it is from', () => {
  const headers = headersFor(
    {
      host: 'dashboard.example.com',
      accept: 'text/event-stream',
      'content-type': 'application/json',
      'last-event-id': '7',
      'idempotency-key': 'k',
      'if-match': '"3"',
      'user-agent': 'Browser/1',
      cookie: 'a=b',
      authorization: 'Bearer root',
      'x-forwarded-for': '6.6.6.6',
      'x-forwarded-proto': 'http',
      'x-forwarded-host': 'evil',
      forwarded: 'for=6.6.6.6',
      'flynn-act-for': 'SHA256:x',
      connection: 'upgrade',
      upgrade: 'flynn',
      te: 'trailers',
      expect: '100-continue',
      origin: 'https://dashboard.example.com',
    },
    { address: '192.0.2.7', requestId: 'r1' },
  );
  assert.deepEqual(headers, {
    accept: 'text/event-stream',
    'content-type': 'application/json',
    'idempotency-key': 'k',
    'if-match': '"3"',
    'last-event-id': '7',
    'user-agent': 'Browser/1',
    'x-forwarded-for': '192.0.2.7',
    'x-request-id': 'r1',
  });
});

test('no answer of the API sets cookies, leads elsewhere, asks for passwords or is shown as a page', () => {
  const hostile = headersBack({
    'content-type': 'text/html; charset=utf-8',
    'set-cookie': ['flynn-session=x'],
    location: 'https://evil.example.com',
    'www-authenticate': 'Basic',
    'access-control-allow-origin': '*',
    'clear-site-data': '"*"',
    'content-security-policy': 'default-src *',
    refresh: '0; url=https://evil.example.com',
    'cache-control': 'public',
    'retry-after': '3',
  });
  assert.equal(hostile['content-type'], 'application/octet-stream');
  assert.equal(hostile['retry-after'], '3');
  assert.equal(hostile['cache-control'], 'no-store');
  assert.match(String(hostile['content-security-policy']), /sandbox/);
  for (const name of [
    'set-cookie',
    'location',
    'www-authenticate',
    'access-control-allow-origin',
    'clear-site-data',
    'refresh',
  ]) {
    assert.ok(!(name in hostile), name);
  }
  for (const type of ['image/svg+xml', 'text/xml', 'application/javascript', 'text/html,application/json', 'x']) {
    assert.equal(headersBack({ 'content-type': type })['content-type'], 'application/octet-stream', type);
  }
  for (const type of ['application/json', 'Application/JSON; charset=utf-8', 'text/event-stream']) {
    assert.equal(headersBack({ 'content-type': type })['content-type'], type);
  }
  assert.ok(!('content-type' in headersBack({})));
});
