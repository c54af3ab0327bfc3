import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from 'fast-check';
import type { LogRecord } from './engine.ts';
import { LineAssembler, advance, isRead, maxLineBytes, readFrom } from './log-lines.ts';
import type { Cursor, Piece } from './log-lines.ts';

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
      const from = readFrom(cursor) ?? 0n;
      const after = assemble(records.filter((r) => r.timestampNs >= from)).filter((piece) => !isRead(cursor, piece));
      assert.deepEqual([...before, ...after].map(identity).sort(), whole.map(identity).sort());
    }),
  );
});

function identity(piece: Piece): string {
  return `${piece.stream} ${piece.timestampNs} ${piece.index} ${piece.message}`;
}
