import assert from 'node:assert/strict';
import { test } from 'node:test';
import { collect } from '../engine/conformance.ts';
import { terminalRecords } from './logs.ts';

const time = (second: number) => `2026-01-01T00:00:0${second}.000000001Z`;

/** The bytes in chunks of a size that cuts times and characters in two. */
async function* chunked(text: string, size: number): AsyncGenerator<Buffer> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

test("a terminal's lines come with the time of their first part", async () => {
  const log = `${time(1)} one\r\n${time(2)} tw${time(2)} o\r\n${time(3)} ü\r\n`;
  for (const size of [1, 7, 1000]) {
    const records = await collect(terminalRecords(chunked(log, size)));
    assert.deepEqual(
      records.map(({ message, isPartial }) => [message, isPartial]),
      [
        ['one', false],
        ['two', false],
        ['ü', false],
      ],
    );
  }
});

test("of a terminal's line that does not end, little is kept", async () => {
  const part = 'ü'.repeat(8_000);
  const log = `${`${time(1)} ${part}`.repeat(40)}\r\n${time(2)} next\r\n`;
  const records = await collect(terminalRecords(chunked(log, 4_099)));
  const parts = records.slice(0, -1);
  assert.ok(parts.length > 5, `${parts.length} records of ${Buffer.byteLength(log)} bytes`);
  assert.equal(parts.map(({ message }) => message).join(''), part.repeat(40));
  assert.deepEqual([...new Set(parts.slice(0, -1).map((one) => one.isPartial))], [true]);
  assert.equal(parts.at(-1)?.isPartial, false);
  assert.equal(new Set(parts.map(({ timestampNs }) => timestampNs)).size, 1);
  assert.equal(records.at(-1)?.message, 'next');
});
