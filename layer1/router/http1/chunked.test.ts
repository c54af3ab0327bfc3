import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { ChunkedBody } from './chunked.ts';

const chunk = fc.record({
  data: fc.uint8Array({ minLength: 1, maxLength: 300 }),
  extension: fc.constantFrom('', ';a', ';a=b', ';name="x y"', ';a="\\"";b'),
  isUpper: fc.boolean(),
});

function frame(chunks: { data: Uint8Array; extension: string; isUpper: boolean }[], trailers: string): Buffer {
  const parts = chunks.flatMap(({ data, extension, isUpper }) => {
    const size = data.length.toString(16);
    return [
      Buffer.from(`${isUpper ? size.toUpperCase() : size}${extension}\r\n`),
      Buffer.from(data),
      Buffer.from('\r\n'),
    ];
  });
  return Buffer.concat([...parts, Buffer.from(`0\r\n${trailers}\r\n`)]);
}

function piecesOf(bytes: Buffer, cuts: number[]): Buffer[] {
  const bounds = [...new Set([...cuts.map((cut) => cut % (bytes.length + 1)), bytes.length])].toSorted((a, b) => a - b);
  return bounds.map((to, i) => bytes.subarray(bounds[i - 1] ?? 0, to));
}

test('a body in chunks ends where it ends, in whichever pieces it comes, and goes on byte for byte', () => {
  fc.assert(
    fc.property(
      fc.array(chunk, { maxLength: 8 }),
      fc.array(fc.nat({ max: 5_000 }), { maxLength: 20 }),
      fc.constantFrom('', 'X-Sum: 1\r\n', 'X-Sum: 1\r\nHost: evil\r\nContent-Length: 7\r\n'),
      (chunks, cuts, trailers) => {
        const framed = frame(chunks, trailers);
        const next = Buffer.from('GET / HTTP/1.1\r\n');
        const passing = new ChunkedBody();
        const reading = new ChunkedBody();
        const passed: Buffer[] = [];
        const data: Buffer[] = [];
        let left = 0;
        for (const piece of piecesOf(Buffer.concat([framed, next]), cuts)) {
          passed.push(piece.subarray(0, passing.pass(piece, 0, piece.length)));
          left += piece.length - passing.taken;
          let at = 0;
          while (at < piece.length && !reading.isDone) {
            at = reading.step(piece, at, piece.length);
            data.push(piece.subarray(reading.dataFrom, reading.dataTo));
          }
        }
        const payload = Buffer.concat(chunks.map((each) => each.data));
        assert.ok(passing.isDone && reading.isDone);
        assert.equal(left, next.length);
        assert.equal(passing.payloadBytes, payload.length);
        assert.ok(payload.equals(Buffer.concat(data)));
        const kept = trailers === '' ? '' : 'X-Sum: 1\r\n';
        const whole = Buffer.concat([...passed, Buffer.from(passing.tail)]);
        assert.ok(whole.equals(frame(chunks, kept)), whole.toString('latin1'));
      },
    ),
  );
});

test('a broken chunk is never taken for the end of a body, nor its rest for more of it', () => {
  const broken = [
    'zz\r\n',
    '\r\n',
    ' 5\r\nhello\r\n',
    '5 \r\nhello\r\n',
    '-5\r\n',
    '+5\r\n',
    '0x5\r\nhello\r\n',
    '5\nhello\r\n',
    '5\rhello\r\n',
    '5\r\nhello!\r\n',
    '5\r\nhello\n',
    '5;a\nb\r\nhello\r\n',
    '5;a\rb\r\nhello\r\n',
    '5;\x00\r\nhello\r\n',
    '5;\r\nhello\r\n',
    '5;a=\r\nhello\r\n',
    '5;a"\r\nhello\r\n',
    '5;a="b\r\nhello\r\n',
    '5;a="b\\"\r\nhello\r\n',
    '5;a="b"c\r\nhello\r\n',
    '5;a=b c\r\nhello\r\n',
    '5; a\r\nhello\r\n',
    `5;${'a'.repeat(20_000)}\r\nhello\r\n`,
    '11111111111111\r\n',
    '0\r\n\n',
    '0\r\nno field\r\n\r\n',
    '0\r\na : b\r\n\r\n',
    `0\r\na: ${'b'.repeat(20_000)}`,
  ];
  for (const text of broken) {
    const body = new ChunkedBody();
    const bytes = Buffer.from(text, 'latin1');
    body.pass(bytes, 0, bytes.length);
    assert.ok(body.isBad, JSON.stringify(text.slice(0, 40)));
    assert.ok(!body.isDone);
  }
});
