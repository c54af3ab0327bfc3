import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { Http2Head, readRequest } from './request.ts';

const plain = [':method', 'GET', ':scheme', 'https', ':authority', 'App.test.:8443', ':path', '/a?b'];

function wholeOf(fields: string[]): Http2Head {
  const head = readRequest(fields, true);
  assert.ok(head instanceof Http2Head, 'message' in head ? head.message : '');
  return head;
}

describe('an HTTP/2 request', () => {
  test('says what the policy asks about', () => {
    const head = wholeOf([...plain, 'cookie', 'a=1', 'accept', 'x', 'cookie', 'b=2', 'accept', 'y']);
    assert.equal(head.host, 'app.test');
    assert.equal(head.authority, 'App.test.:8443');
    assert.equal(head.target, '/a?b');
    assert.equal(head.header('cookie'), 'a=1; b=2');
    assert.equal(head.header('accept'), 'x, y');
    assert.equal(head.header('none'), undefined);
    assert.equal(head.header('host'), 'App.test.:8443');
    assert.equal(head.body, 'none');
    assert.equal(wholeOf([...plain.slice(0, 4), 'host', '[::1]:80', ':path', '/']).host, '[::1]');
  });

  test('has a body of a length, or until its end', () => {
    const bodyOf = (...more: string[]) => (readRequest([...plain, ...more], false) as Http2Head).body;
    assert.equal(bodyOf(), 'until-end');
    assert.equal(bodyOf('content-length', '12'), 12);
    assert.equal(bodyOf('content-length', '0'), 'none');
  });

  test('for a WebSocket reads as the upgrade it stands for', () => {
    const head = readRequest([...plain.slice(2), ':method', 'CONNECT', ':protocol', 'websocket'], false) as Http2Head;
    assert.deepEqual([head.method, head.upgrade, head.body], ['GET', 'websocket', 'none']);
  });
});

/** What would become two requests, or another one, when written as HTTP/1.1. */
const attacks: Record<string, string[]> = {
  'a newline in a value': ['x', 'a\r\nhost: evil'],
  'a bare carriage return': ['x', 'a\rb'],
  'a null': ['x', 'a\0b'],
  'a value that begins with a space': ['x', ' a'],
  'a newline in a name': ['x: a\r\nhost', 'evil'],
  'a colon in a name': ['transfer-encoding:', 'chunked'],
  'a space in a name': ['transfer-encoding ', 'chunked'],
  'an upper-case name': ['Transfer-Encoding', 'chunked'],
  'an empty name': ['', 'x'],
  'a transfer coding': ['transfer-encoding', 'chunked'],
  'a connection field': ['connection', 'transfer-encoding'],
  'a proxy-connection field': ['proxy-connection', 'keep-alive'],
  'an upgrade': ['upgrade', 'h2c'],
  'te beyond trailers': ['te', 'trailers, chunked'],
  'two lengths': ['content-length', '3', 'content-length', '3'],
  'a list of lengths': ['content-length', '3, 4'],
  'a signed length': ['content-length', '+3'],
  'a hexadecimal length': ['content-length', '0x3'],
  'a length without a body': ['content-length', '3'],
  'another host': ['host', 'evil.test'],
  'two hosts': ['host', 'App.test.:8443', 'host', 'App.test.:8443'],
  'a second path': [':path', '/x HTTP/1.1\r\n\r\n'],
  'a path with a space': [':path', '/ HTTP/1.1'],
  'a path that is none': [':path', 'http://evil.test/'],
  'an empty path': [':path', ''],
  'a star for GET': [':path', '*'],
  'a fragment': [':path', '/a#b'],
  'a method with a space': [':method', 'GET / HTTP/1.1'],
  'an empty method': [':method', ''],
  'a scheme that is none': [':scheme', 'https://evil.test/?'],
  'credentials in the authority': [':authority', 'a@evil.test'],
  'a path in the authority': [':authority', 'app.test/x'],
  'a protocol without CONNECT': [':protocol', 'websocket'],
  'HTTP/2 within HTTP/2': [':method', 'CONNECT', ':protocol', 'H2C', 'http2-settings', 'AAMAAABkAAQAoAAAAAIAAAAA'],
  'a pseudo field nobody knows': [':evil', 'x'],
};

describe('refused, not repaired', () => {
  for (const [what, fields] of Object.entries(attacks)) {
    test(what, () => {
      const head = readRequest([...plain, ...fields], true);
      assert.ok(!(head instanceof Http2Head), JSON.stringify(head));
      assert.equal(head.status, 400);
    });
  }

  test('a tunnel, and a path beyond measure', () => {
    assert.deepEqual(codeOf([...plain, ':method', 'CONNECT']), 501);
    assert.deepEqual(codeOf([...plain, ':path', `/${'a'.repeat(8_192)}`]), 414);
  });
});

function codeOf(fields: string[]): number | undefined {
  const head = readRequest(fields, true);
  return head instanceof Http2Head ? undefined : head.status;
}
