import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import * as fc from 'fast-check';
import { ChunkedReader, readAnswerHead } from './http1-answer.ts';

describe('the head of an answer', () => {
  test('says how long its body is and whether the connection stays', () => {
    const frameOf = (text: string) => {
      const head = readAnswerHead(text);
      return head === undefined ? undefined : [head.frame, head.keepsOpen];
    };
    assert.deepEqual(frameOf('HTTP/1.1 200 OK\r\nContent-Length: 5'), [5, true]);
    assert.deepEqual(frameOf('HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nConnection: x, Close'), [
      'chunked',
      false,
    ]);
    assert.deepEqual(frameOf('HTTP/1.1 200'), ['until-close', true]);
    assert.deepEqual(frameOf('HTTP/1.0 200 OK\r\ncontent-length: 1'), [1, false]);
    assert.deepEqual(frameOf('HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 1'), [1, true]);
  });

  test('keeps fields in order and repeated, without the space around values', () => {
    const head = readAnswerHead('HTTP/1.1 200 OK\r\nSet-Cookie:a \r\nset-cookie:\t b\tc\r\nX-Empty: ');
    assert.deepEqual(head?.fields, ['set-cookie', 'a', 'set-cookie', 'b\tc', 'x-empty', '']);
  });

  const bad = [
    'HTTP/2 200 OK',
    'HTTP/1.1 99 OK',
    'HTTP/1.1 600 OK',
    'HTTP/1.1  200 OK',
    'HTTP/1.1 200 OK\r\nno colon',
    'HTTP/1.1 200 OK\r\na : b',
    'HTTP/1.1 200 OK\r\n: b',
    'HTTP/1.1 200 OK\r\na: b\r\n c',
    'HTTP/1.1 200 OK\r\na: b\rc',
    'HTTP/1.1 200 OK\r\na: b\nc: d',
    'HTTP/1.1 200 O\0K',
    'HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 1',
    'HTTP/1.1 200 OK\r\ncontent-length: 1, 1',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntransfer-encoding: chunked',
    'HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ncontent-length: 1',
    'HTTP/1.0 200 OK\r\ntransfer-encoding: chunked',
    `HTTP/1.1 200 OK${'\r\na: b'.repeat(201)}`,
  ];
  for (const text of bad) {
    test(`is refused: ${JSON.stringify(text.slice(0, 60))}`, () => assert.equal(readAnswerHead(text), undefined));
  }
});

test('a chunked body comes out the same wherever it is cut', () => {
  const piece = fc.uint8Array({ minLength: 1, maxLength: 50 });
  const cuts = fc.array(fc.integer({ min: 1, max: 9 }), { minLength: 1, maxLength: 40 });
  fc.assert(
    fc.property(fc.array(piece), cuts, fc.boolean(), (pieces, lengths, hasTrailers) => {
      const chunks = pieces.map((bytes) => [
        Buffer.from(`${bytes.length.toString(16)};x=y\r\n`),
        bytes,
        Buffer.from('\r\n'),
      ]);
      const end = Buffer.from(`0\r\n${hasTrailers ? 'X-Sum: 1\r\n' : ''}\r\n`);
      const whole = Buffer.concat([...chunks.flat(), end]);
      const reader = new ChunkedReader();
      const got: Buffer[] = [];
      let at = 0;
      let used: number | undefined;
      for (let i = 0; at < whole.length; i += 1) {
        const next = whole.subarray(at, at + (lengths[i % lengths.length] ?? 1));
        assert.equal(used, undefined);
        used = reader.read(next, (bytes) => got.push(bytes));
        at += next.length;
        if (at >= whole.length) assert.equal(used, next.length);
      }
      assert.deepEqual(Buffer.concat(got), Buffer.concat(pieces));
      assert.deepEqual(reader.trailers(), hasTrailers ? ['x-sum', '1'] : []);
    }),
  );
});

test('what are no chunks is refused', () => {
  for (const text of [
    '\r\n',
    'g\r\n',
    '-1\r\n',
    '0x1\r\n',
    '1 1\r\n',
    '3\nabc',
    '3\r\nabcd\r\n',
    '3\r\nabc\n',
    '1'.repeat(20_000),
  ]) {
    assert.equal(
      new ChunkedReader().read(Buffer.from(text), () => undefined),
      -1,
      JSON.stringify(text.slice(0, 20)),
    );
  }
});
