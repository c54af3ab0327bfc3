import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import type { Exchange } from '../exchange.ts';
import { HeadProblem } from './fields.ts';
import { HeadReader } from './head-reader.ts';
import { Http1RequestHead, problemOfPartialRequest, readRequestHead } from './request-head.ts';
import { Http1ResponseHead, problemOfPartialResponse, readResponseHead } from './response-head.ts';
import { requestHeadFor, responseHeadFor } from './rewrite.ts';

function request(text: string): Http1RequestHead {
  const head = readRequestHead(text);
  assert.ok(head instanceof Http1RequestHead, head instanceof HeadProblem ? head.message : 'unfinished');
  return head;
}

function statusOf(text: string): number | undefined {
  const head = new HeadReader(readRequestHead, problemOfPartialRequest).read(
    Buffer.from(text, 'latin1'),
    0,
    text.length,
  );
  return head instanceof HeadProblem ? head.status : undefined;
}

const host = 'Host: app.test\r\n';

describe('the head of a request', () => {
  test('says what is asked, of whom, and how long its body is', () => {
    const head = request(
      'POST /a?b=c HTTP/1.1\r\nHOST: App.Test.:8080\r\nContent-Length: 12\r\nCookie: a=1\r\ncookie: b=2\r\n\r\n',
    );
    assert.deepEqual(
      [head.method, head.target, head.host, head.protocol, head.body, head.keepsAlive],
      ['POST', '/a?b=c', 'app.test', 'HTTP/1.1', 12, true],
    );
    assert.equal(head.header('cookie'), 'a=1; b=2');
    assert.equal(head.header('x-none'), undefined);
    assert.equal(request(`GET / HTTP/1.1\r\n${host}Content-Length: 0\r\n\r\n`).body, 'none');
    assert.equal(request(`GET / HTTP/1.1\r\n${host}Transfer-Encoding:\t Chunked \r\n\r\n`).body, 'until-end');
    assert.equal(request('\r\nGET / HTTP/1.0\r\n\r\n').host, '');
    assert.equal(request('GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n').host, '[::1]');
    assert.equal(request(`GET HTTP://APP.test HTTP/1.1\r\n${host}\r\n`).target, '/');
    assert.equal(request(`GET http://app.test?q HTTP/1.1\r\n${host}\r\n`).target, '/?q');
    assert.equal(request(`OPTIONS * HTTP/1.1\r\n${host}\r\n`).target, '*');
  });

  test('says whether the connection goes on, and as what', () => {
    const of = (version: string, fields: string) => request(`GET / HTTP/${version}\r\n${host}${fields}\r\n`);
    assert.equal(of('1.0', '').keepsAlive, false);
    assert.equal(of('1.0', 'Connection: Keep-Alive\r\n').keepsAlive, true);
    assert.equal(of('1.1', 'Connection: x, CLOSE\r\n').keepsAlive, false);
    assert.deepEqual(of('1.1', 'Connection: X-Secret, host, content-length\r\n').named, ['x-secret']);
    assert.equal(of('1.1', 'Connection: upgrade\r\nUpgrade: WebSocket\r\n').upgrade, 'websocket');
    assert.equal(of('1.1', 'Upgrade: websocket\r\n').upgrade, undefined);
    assert.equal(of('1.1', 'Connection: upgrade\r\nUpgrade: h2c\r\n').upgrade, undefined);
    assert.equal(of('1.0', 'Connection: upgrade\r\nUpgrade: websocket\r\n').upgrade, undefined);
    assert.equal(of('1.1', 'Expect: 100-continue\r\nContent-Length: 1\r\n').expectsContinue, true);
    assert.equal(of('1.1', 'Expect: 100-continue\r\n').expectsContinue, false);
  });

  const refused: [status: number, text: string][] = [
    [400, `GET / HTTP/1.1\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}${host}\r\n`],
    [400, `GET / HTTP/1.1\r\nHost: a b\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\nHost: a@b\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\nHost: a/b\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\nHost: a:b\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\nHost: a..\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\nHost: a..b\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\nHost: .a\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host} folded: x\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}a: b\r\n c\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}a : b\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}: b\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}a\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}a: b\rc\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}a: b\nc: d\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}a: \x00\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}a: \x7f\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}\n`],
    [400, `GET / HTTP/1.1\n${host}\r\n`],
    [400, `GET  / HTTP/1.1\r\n${host}\r\n`],
    [400, `GET / HTTP/1.1 \r\n${host}\r\n`],
    [400, `GET / http/1.1\r\n${host}\r\n`],
    [400, `GET /\r\n`],
    [400, `GET /#a HTTP/1.1\r\n${host}\r\n`],
    [400, `GET /\xe4 HTTP/1.1\r\n${host}\r\n`],
    [400, `GET a HTTP/1.1\r\n${host}\r\n`],
    [400, `GET * HTTP/1.1\r\n${host}\r\n`],
    [400, `GET http://other.test/ HTTP/1.1\r\n${host}\r\n`],
    [400, `GET http://u@app.test/ HTTP/1.1\r\n${host}\r\n`],
    [400, `G@T / HTTP/1.1\r\n${host}\r\n`],
    [400, `\r\n\r\nGET / HTTP/1.1\r\n${host}\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Content-Length: 1\r\nContent-Length: 1\r\n\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Content-Length: 1, 1\r\n\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Content-Length: +1\r\n\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Content-Length: 0x1\r\n\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Content-Length: 01\r\n\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Content-Length:\r\n\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Content-Length: 99999999999999999\r\n\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n`],
    [400, `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n`],
    [400, `POST / HTTP/1.0\r\n${host}Transfer-Encoding: chunked\r\n\r\n`],
    [400, `GET / HTTP/1.1\r\n${host}Connection: upgrade\r\nUpgrade: x\r\nContent-Length: 1\r\n\r\n`],
    [501, `POST / HTTP/1.1\r\n${host}Transfer-Encoding: gzip, chunked\r\n\r\n`],
    [501, `POST / HTTP/1.1\r\n${host}Transfer-Encoding: chunked, chunked\r\n\r\n`],
    [501, `POST / HTTP/1.1\r\n${host}Transfer-Encoding: \x0bchunked\r\n\r\n`.replace('\x0b', 'x')],
    [501, `POST / HTTP/1.1\r\n${host}Transfer-Encoding:\r\n\r\n`],
    [501, `CONNECT app.test:443 HTTP/1.1\r\n${host}\r\n`],
    [417, `POST / HTTP/1.1\r\n${host}Expect: more\r\n\r\n`],
    [505, `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n`],
    [505, `GET / HTTP/1.2\r\n${host}\r\n`],
    [414, `GET /${'a'.repeat(8_192)} HTTP/1.1\r\n${host}\r\n`],
    [414, `GET /${'a'.repeat(9_000)}`],
    [431, `GET / HTTP/1.1\r\n${host}a: ${'a'.repeat(66_000)}\r\n\r\n`],
    [431, `GET / HTTP/1.1\r\n${host}a: ${'a'.repeat(66_000)}`],
    [431, `GET / HTTP/1.1\r\n${host}${'a: b\r\n'.repeat(200)}\r\n`],
    [400, '\x16\x03\x01\x02'],
  ];
  test('is refused when two readers could read it differently, or it is too large', () => {
    for (const [status, text] of refused) assert.equal(statusOf(text), status, JSON.stringify(text.slice(0, 200)));
  });

  test('is the same in whichever pieces it comes', () => {
    const texts = [
      ...refused.map(([, text]) => text),
      `POST /x HTTP/1.1\r\n${host}Content-Length: 5\r\n\r\nhello`,
      `GET / HTTP/1.1\r\n${host}${'a: b\r\n'.repeat(199)}\r\nGET`,
      `GET / HTTP/1.1\r\n${host}a: ${'a'.repeat(60_000)}\r\n\r\n`,
    ];
    const outcome = (text: string, cuts: number[]) => {
      const reader = new HeadReader(readRequestHead, problemOfPartialRequest);
      const bytes = Buffer.from(text, 'latin1');
      const bounds = [...new Set([...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].toSorted(
        (a, b) => a - b,
      );
      let from = 0;
      for (const to of bounds) {
        // Each piece in a buffer that is used again afterwards.
        const piece = Buffer.from(bytes.subarray(from, to));
        const head = reader.read(piece, 0, piece.length);
        piece.fill(0);
        if (head instanceof HeadProblem) return head.status;
        if (head !== undefined)
          return [head.method, head.target, head.body, from + reader.end, head.fields.count, head.host];
        from = to;
      }
      return undefined;
    };
    for (const text of texts) {
      const whole = outcome(text, []);
      fc.assert(
        fc.property(fc.array(fc.nat({ max: 70_000 }), { maxLength: 12 }), (cuts) => {
          assert.deepEqual(outcome(text, cuts), whole);
        }),
        { numRuns: 20 },
      );
    }
  });
});

describe('the head of an answer', () => {
  const answer = (text: string) => {
    const head = new HeadReader(readResponseHead, problemOfPartialResponse).read(Buffer.from(text), 0, text.length);
    return head instanceof Http1ResponseHead ? [head.status, head.framing, head.length, head.keepsAlive] : head?.status;
  };

  test('says how its body ends', () => {
    assert.deepEqual(answer('HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n'), [200, 'length', 7, true]);
    assert.deepEqual(answer('HTTP/1.1 200\r\nTransfer-Encoding: chunked\r\n\r\n'), [200, 'chunked', 0, true]);
    assert.deepEqual(answer('HTTP/1.1 200 \r\nConnection: close\r\n\r\n'), [200, 'until-close', 0, false]);
    assert.deepEqual(answer('HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n'), [200, 'none', 0, false]);
    assert.deepEqual(answer('HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n'), [304, 'none', 0, true]);
    assert.deepEqual(answer('HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n'), [103, 'none', 0, true]);
  });

  test('is refused when it could be read in two ways', () => {
    const refused = [
      'nonsense\r\n\r\n',
      'nonsense',
      'HTTP/2 200 OK\r\n\r\n',
      'HTTP/1.1 20 OK\r\n\r\n',
      'HTTP/1.1 0200 OK\r\n\r\n',
      'HTTP/1.1 099 OK\r\n\r\n',
      // Reads as 500 to who takes any notation of a number.
      'HTTP/1.1 5e2 OK\r\n\r\n',
      'HTTP/1.1 200 OK\n\n',
      'HTTP/1.1 200 O\rK\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n',
      'HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n',
      'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n',
      'HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n',
      'HTTP/1.1 200 OK\r\na: b\r\n c\r\n\r\n',
    ];
    for (const text of refused) assert.ok(Number(answer(text)) >= 400, JSON.stringify(text));
  });
});

test('a request goes on without what is meant for this hop, with what the policy says, and its body framed', () => {
  const head = request(
    `DELETE /a/b HTTP/1.1\r\n${host}Connection: keep-alive, X-Hop\r\nKeep-Alive: 5\r\nX-Hop: 1\r\nAccept: */*\r\nX-Request-Id: mine\r\nTE: trailers\r\nTransfer-Encoding: chunked\r\nX-Secret: 1\r\nCookie: a\r\n\r\n`,
  );
  const exchange: Pick<Exchange, 'target' | 'requestLines' | 'removedFields'> = {
    target: '/b',
    requestLines: 'x-request-id: ours\r\n',
    removedFields: new Set(['x-secret', 'x-request-id']),
  };
  assert.equal(
    requestHeadFor(head, exchange),
    `DELETE /b HTTP/1.1\r\n${host}Accept: */*\r\nCookie: a\r\nx-request-id: ours\r\ntransfer-encoding: chunked\r\n\r\n`,
  );
  const plain = { target: '/', requestLines: '', removedFields: new Set<string>() };
  assert.equal(
    requestHeadFor(request(`POST / HTTP/1.0\r\n\r\n`), plain),
    'POST / HTTP/1.1\r\nhost: \r\ncontent-length: 0\r\n\r\n',
  );
});

test('heads that are looked at in turn are each read as they are', () => {
  const one = request(`GET /a HTTP/1.1\r\n${host}Cookie: a=1\r\nX-Only: one\r\n\r\n`);
  const other = request(`\r\nPOST /b HTTP/1.1\r\nContent-Length: 2\r\n${host}Cookie: b=2\r\nCookie: c=3\r\n\r\n`);
  const all = { target: '/', requestLines: '', removedFields: new Set(['cookie']) };
  for (let round = 0; round < 2; round += 1) {
    assert.deepEqual(one.fields.names, ['host', 'cookie', 'x-only']);
    assert.equal(other.header('cookie'), 'b=2; c=3');
    assert.equal(one.header('cookie'), 'a=1');
    assert.equal(other.header('x-only'), undefined);
    assert.equal(requestHeadFor(other, all), `POST / HTTP/1.1\r\nContent-Length: 2\r\n${host}\r\n`);
    assert.equal(requestHeadFor(one, { ...all, target: '/a' }), `GET /a HTTP/1.1\r\n${host}X-Only: one\r\n\r\n`);
  }
});

test('an answer of HTTP/1.0, or without a word for its status, goes on as one of HTTP/1.1', () => {
  for (const line of ['HTTP/1.0 200 Fine', 'HTTP/1.1 200 Fine', 'HTTP/1.1 200']) {
    const head = readResponseHead(`${line}\r\nContent-Length: 1\r\n\r\n`);
    assert.ok(head instanceof Http1ResponseHead);
    const said = line.endsWith('Fine') ? 'HTTP/1.1 200 Fine' : 'HTTP/1.1 200 ';
    assert.equal(responseHeadFor(head, [], ''), `${said}\r\nContent-Length: 1\r\n\r\n`);
  }
});

test('an answer goes on with what the policy adds, and what the backend says itself stands', () => {
  const head = readResponseHead(
    'HTTP/1.1 200 Fine\r\nServer: x\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nX-Request-Id: its\r\nContent-Length: 1\r\n\r\n',
  );
  assert.ok(head instanceof Http1ResponseHead);
  assert.equal(
    responseHeadFor(head, ['X-Request-Id', 'ours', 'set-cookie', 'a=1'], 'connection: close\r\n'),
    'HTTP/1.1 200 Fine\r\nServer: x\r\nX-Request-Id: its\r\nContent-Length: 1\r\nset-cookie: a=1\r\nconnection: close\r\n\r\n',
  );
});
