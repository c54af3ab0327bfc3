import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { LogRecord } from '../engine/engine.ts';
import { LineAssembler, Unread, advance, maxLineBytes, readFrom } from './lines.ts';
import type { Cursor, Piece } from './lines.ts';

function record(timestampNs: bigint, message: string, rest: Partial<LogRecord> = {}): LogRecord {
  return { stream: 'stdout', timestampNs, message, isPartial: false, ...rest };
}

function assemble(records: readonly LogRecord[]): Piece[] {
  const assembler = new LineAssembler();
  return [...records.flatMap((r) => assembler.push(r)), ...assembler.flush()];
}

test('partial records become one line, also when the other stream comes between', () => {
  const pieces = assemble([
    record(1n, 'one ', { isPartial: true }),
    record(1n, 'trouble', { stream: 'stderr' }),
    record(1n, 'line'),
  ]);
  assert.deepEqual(
    pieces.map((p) => `${p.stream} ${p.message}`),
    ['stderr trouble', 'stdout one line'],
  );
});

test('long lines are split at 10,000 bytes and never within a character', () => {
  const text = `${'x'.repeat(maxLineBytes - 1)}é${'y'.repeat(5)}`;
  const pieces = assemble([record(1n, text)]);
  assert.deepEqual(
    pieces.map((p) => Buffer.byteLength(p.message)),
    [maxLineBytes - 1, 7],
  );
  assert.equal(pieces.map((p) => p.message).join(''), text);
});

test('an empty line is a line', () => {
  assert.deepEqual(
    assemble([record(1n, ''), record(2n, '')]).map((p) => p.message),
    ['', ''],
  );
});

/** Lines of two streams; times repeat now and then; long ones come in parts like the engine's. */
const logs = fc
  .array(
    fc.record({
      stream: fc.constantFrom('stdout' as const, 'stderr' as const),
      step: fc.nat(2),
      length: fc.nat(25_000),
    }),
    {
      maxLength: 20,
    },
  )
  .map((lines) => {
    let timestampNs = 1_000n;
    return lines.flatMap(({ stream, step, length }): LogRecord[] => {
      timestampNs += BigInt(step);
      const text = 'é'.repeat(length / 2);
      const parts = text.match(/.{1,8000}/gs) ?? [''];
      return parts.map((message, index) => ({ stream, timestampNs, message, isPartial: index < parts.length - 1 }));
    });
  });

test('read in two goes from any position, every piece comes exactly once', () => {
  fc.assert(
    fc.property(logs, fc.nat(60), (records, stopAfter) => {
      const whole = assemble(records);
      const before = whole.slice(0, stopAfter);
      const cursor = before.reduce<Cursor>(advance, {});
      const from = readFrom(cursor, 10_000n) ?? 0n;
      const unread = new Unread(cursor);
      const after = assemble(records.filter((r) => r.timestampNs >= from)).filter((piece) => unread.isNew(piece));
      assert.deepEqual([...before, ...after].map(identity).sort(), whole.map(identity).sort());
    }),
  );
});

test('a clock that is set back loses and repeats no line, wherever reading is taken up again', () => {
  const series = (from: bigint, length: number) => Array.from({ length }, (_, i) => from + 2n * BigInt(i));
  // Set back to between the earlier ones, and on beyond them.
  const times = fc
    .tuple(fc.nat(20), fc.nat(40))
    .map(([before, after]) => series(1_000n, before).concat(series(1_001n, after)));
  const streams = fc.array(fc.constantFrom('stdout' as const, 'stderr' as const), { minLength: 60, maxLength: 60 });
  fc.assert(
    fc.property(times, streams, fc.nat(60), (all, of, stopAfter) => {
      const whole = assemble(
        all.map((timestampNs, i) => ({ stream: of[i] ?? 'stdout', timestampNs, message: `${i}`, isPartial: false })),
      );
      const before = whole.slice(0, stopAfter);
      const cursor = before.reduce<Cursor>(advance, {});
      const unread = new Unread(cursor);
      // Taken up while the clock is still behind, if it was set back in between.
      const nowNs = whole.slice(stopAfter).reduce((least, { timestampNs: t }) => (t < least ? t : least), 10_000n);
      const from = readFrom(cursor, nowNs) ?? 0n;
      const again = whole.filter((piece) => piece.timestampNs >= from).filter((piece) => unread.isNew(piece));
      assert.deepEqual([...before, ...again].map(identity), whole.map(identity));
    }),
  );
});

function identity(piece: Piece): string {
  return `${piece.stream} ${piece.timestampNs} ${piece.index} ${piece.message}`;
}
