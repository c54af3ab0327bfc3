import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { checkHead, requestHeaders, requestIdOf, responseHeaders } from './headers.ts';

const hop = { requestId: 'id-1', remoteAddress: '::ffff:10.0.0.9', localPort: 80, nowMs: 1234 };

function head(rawHeaders: string[], changes: { method?: string; url?: string; httpVersion?: string } = {}) {
  return { method: 'GET', url: '/', httpVersion: '1.1', rawHeaders, ...changes };
}

describe('request headers', () => {
  test('lose what belongs to one hop, also what Connection names, and keep everything else as it was', () => {
    const raw = [
      'Host',
      'a.test',
      'CoNNection',
      'close, X-Mine',
      'X-Mine',
      '1',
      'TE',
      'trailers',
      'Cookie',
      'a=1',
      'cookie',
      'b=2',
    ];
    const sent = requestHeaders(
      head([...raw, 'Keep-Alive', 'timeout=5', 'Upgrade', 'h2c', 'Proxy-Authorization', 'x']),
      'none',
      hop,
    );
    assert.deepEqual(sent.slice(0, 6), ['Host', 'a.test', 'Cookie', 'a=1', 'cookie', 'b=2']);
    assert.deepEqual(sent.slice(6), [
      'X-Request-Id',
      'id-1',
      'X-Request-Start',
      '1234',
      'X-Forwarded-For',
      '10.0.0.9',
      'X-Forwarded-Proto',
      'http',
      'X-Forwarded-Port',
      '80',
    ]);
  });

  test('Connection cannot take away the host, the length or the credentials', () => {
    const raw = [
      'Host',
      'a.test',
      'Authorization',
      'x',
      'Connection',
      'host, authorization, content-length',
      'Content-Length',
      '3',
    ];
    const sent = requestHeaders(head(raw, { method: 'POST' }), 'length', hop);
    assert.deepEqual(sent.slice(0, 4), ['Host', 'a.test', 'Authorization', 'x']);
    assert.deepEqual(sent.slice(-2), ['Content-Length', '3']);
  });

  test('the client is added to those that forwarded before it, and cannot set the rest', () => {
    const raw = [
      'X-Forwarded-For',
      '1.1.1.1',
      'x-forwarded-for',
      '2.2.2.2',
      'X-Forwarded-Proto',
      'https',
      'X-Request-Start',
      '0',
    ];
    const sent = requestHeaders(head(raw), 'none', hop);
    assert.equal(sent[sent.indexOf('X-Forwarded-For') + 1], '1.1.1.1, 2.2.2.2, 10.0.0.9');
    assert.equal(sent.filter((text) => text.toLowerCase() === 'x-forwarded-proto').length, 1);
    assert.equal(sent[sent.indexOf('X-Forwarded-Proto') + 1], 'http');
    assert.equal(sent[sent.indexOf('X-Request-Start') + 1], '1234');
  });

  test('state the frame of the body for every method', () => {
    for (const method of ['GET', 'DELETE', 'OPTIONS', 'POST', 'PROPFIND']) {
      const sent = requestHeaders(head(['Transfer-Encoding', 'Chunked'], { method }), 'chunked', hop);
      assert.deepEqual(sent.slice(-2), ['Transfer-Encoding', 'chunked'], method);
    }
    assert.deepEqual(requestHeaders(head([], { method: 'POST' }), 'none', hop).slice(-2), ['Content-Length', '0']);
    assert.ok(!requestHeaders(head(['Content-Length', '0']), 'none', hop).includes('Content-Length'));
  });
});

describe('checking a head', () => {
  const problemOf = (raw: string[], changes = {}) => {
    const checked = checkHead(head(raw, changes));
    return 'problem' in checked ? checked.status : checked.body;
  };

  test('tells whether there is a body', () => {
    assert.equal(problemOf(['Host', 'a']), 'none');
    assert.equal(problemOf(['Content-Length', '0']), 'none');
    assert.equal(problemOf(['Content-Length', '12']), 'length');
    assert.equal(problemOf(['Transfer-Encoding', 'chunked']), 'chunked');
  });

  test('refuses what two readers could read differently', () => {
    assert.equal(problemOf(['Host', 'a', 'host', 'b']), 400);
    assert.equal(problemOf(['Transfer-Encoding', 'chunked', 'Content-Length', '3']), 400);
    assert.equal(problemOf(['Transfer-Encoding', 'chunked'], { httpVersion: '1.0' }), 400);
    assert.equal(problemOf(['Content-Length', '3', 'Content-Length', '3']), 400);
    assert.equal(problemOf(['Content-Length', '+3']), 400);
    assert.equal(problemOf(['Transfer-Encoding', 'gzip, chunked']), 501);
    assert.equal(problemOf(['Transfer-Encoding', 'chunked', 'Transfer-Encoding', 'chunked']), 501);
  });

  test('takes an absolute target only if it agrees with Host', () => {
    const targetOf = (url: string, method = 'GET') => {
      const checked = checkHead(head(['Host', 'a.test:80'], { url, method }));
      return 'problem' in checked ? checked.status : checked.target;
    };
    assert.equal(targetOf('http://A.test:80/x?y'), '/x?y');
    assert.equal(targetOf('http://a.test:80'), '/');
    assert.equal(targetOf('http://a.test:80?q'), '/?q');
    assert.equal(targetOf('*', 'OPTIONS'), '*');
    assert.equal(targetOf('*'), 400);
    assert.equal(targetOf('/a#b'), 400);
    assert.equal(targetOf('http://b.test/x'), 400);
    assert.equal(targetOf('http://b.test@a.test:80/x'), 400);
    assert.equal(targetOf('x'), 400);
  });
});

test('response headers keep repeated cookies and lose what belongs to one hop', () => {
  const raw = [
    'Set-Cookie',
    'a',
    'Set-Cookie',
    'b',
    'Connection',
    'close',
    'Transfer-Encoding',
    'chunked',
    'ETag',
    '"x"',
  ];
  assert.deepEqual(responseHeaders(raw, 'r'), [
    'Set-Cookie',
    'a',
    'Set-Cookie',
    'b',
    'ETag',
    '"x"',
    'X-Request-Id',
    'r',
  ]);
  assert.deepEqual(responseHeaders(['x-request-id', 'own'], 'r'), ['x-request-id', 'own']);
});

test('a request id of the client is kept if it is long and safe enough', () => {
  const made = () => 'made';
  assert.equal(requestIdOf('a'.repeat(20), made), 'a'.repeat(20));
  for (const bad of [
    undefined,
    'a'.repeat(19),
    'a'.repeat(201),
    `${'a'.repeat(20)} `,
    `${'a'.repeat(20)}"`,
    'ä'.repeat(20),
  ]) {
    assert.equal(requestIdOf(bad, made), 'made');
  }
});
