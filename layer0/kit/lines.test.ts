import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { LineSplitter } from './lines.ts';

function split(chunks: readonly Uint8Array[], maxBytes: number): string[] {
  const splitter = new LineSplitter({ maxBytes });
  const lines = chunks.flatMap((chunk) => splitter.push(chunk));
  return [...lines, ...splitter.flush()];
}

function cut(bytes: Buffer, places: readonly number[]): Buffer[] {
  const ends = [...new Set(places.map((place) => place % (bytes.length + 1))), bytes.length].sort((a, b) => a - b);
  return ends.map((end, index) => bytes.subarray(ends[index - 1] ?? 0, end));
}

const text = fc.string({ unit: fc.constantFrom('a', 'b', 'é', '漢', '🚀', '\n', '\r\n', '\r'), maxLength: 60 });

test('lines do not depend on where the bytes are cut', () => {
  fc.assert(
    fc.property(text, fc.array(fc.nat()), fc.integer({ min: 4, max: 12 }), (written, places, maxBytes) => {
      const bytes = Buffer.from(written);
      assert.deepEqual(split(cut(bytes, places), maxBytes), split([bytes], maxBytes));
    }),
  );
});

test('no piece is longer than the limit, no character is cut, and nothing but line ends is lost', () => {
  fc.assert(
    fc.property(text, fc.array(fc.nat()), fc.integer({ min: 4, max: 12 }), (written, places, maxBytes) => {
      const lines = split(cut(Buffer.from(written), places), maxBytes);
      for (const line of lines) {
        assert.ok(Buffer.byteLength(line) <= maxBytes);
        assert.ok(!line.includes('\uFFFD'));
      }
      const expected = written.split('\n').map((line) => (line.endsWith('\r') ? line.slice(0, -1) : line));
      assert.equal(lines.join(''), expected.join(''));
    }),
  );
});

test('short lines come out exactly as written, whole, and empty ones too', () => {
  fc.assert(
    fc.property(
      fc.array(fc.string({ unit: fc.constantFrom('a', 'é', '🚀', ' ') })),
      fc.array(fc.nat()),
      (lines, places) => {
        const bytes = Buffer.from(lines.map((line) => `${line}\n`).join(''));
        assert.deepEqual(split(cut(bytes, places), 1000), lines);
      },
    ),
  );
});

test('a line comes out as soon as it ends, and the rest on flush', () => {
  const splitter = new LineSplitter({ maxBytes: 100 });
  assert.deepEqual(splitter.push(Buffer.from('one\r\ntwo\nthr')), ['one', 'two']);
  assert.deepEqual(splitter.push(Buffer.from('ee')), []);
  assert.deepEqual(splitter.flush(), ['three']);
  assert.deepEqual(splitter.flush(), []);
});

test('a line without an end does not grow beyond the limit in memory', () => {
  const splitter = new LineSplitter({ maxBytes: 10 });
  const pieces = splitter.push(Buffer.alloc(1005, 'x'));
  assert.equal(pieces.length, 100);
  assert.ok(pieces.every((piece) => piece === 'x'.repeat(10)));
  assert.deepEqual(splitter.flush(), ['xxxxx']);
});

test('bytes that are not UTF-8 pass as replacement characters', () => {
  assert.deepEqual(split([Buffer.from([0xff, 0x61, 0x0a])], 10), ['\uFFFDa']);
});

test('a full line whose \\r and \\n come apart is one line', () => {
  assert.deepEqual(split([Buffer.from('abcd\r'), Buffer.from('\nef')], 4), ['abcd', 'ef']);
});
