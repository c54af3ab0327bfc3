import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { decompressorOf, fromZstd, toZstd } from './compression.ts';

const bytes = Buffer.concat([randomBytes(600_000), Buffer.alloc(600_000), Buffer.from('the end')]);

test('what is compressed comes back as it was, whatever its size', async () => {
  for (const one of [bytes, Buffer.alloc(0), Buffer.from('x')]) {
    const compressed = await buffer(Readable.from([one]).pipe(toZstd(3)));
    assert.deepEqual(await buffer(Readable.from([compressed]).pipe(fromZstd())), one);
  }
});

test('the first bytes tell what undoes a compression', async () => {
  for (const compressed of [gzipSync(bytes), zstdCompressSync(bytes)]) {
    const decompressor = decompressorOf(compressed);
    assert.ok(decompressor);
    assert.deepEqual(await buffer(Readable.from([compressed]).pipe(decompressor)), bytes);
  }
  for (const plain of ['', 'a', 'ustar']) assert.equal(decompressorOf(Buffer.from(plain)), undefined);
});

test('what is damaged is not handed on as if it were whole', async () => {
  const compressed = zstdCompressSync(bytes);
  compressed.writeUInt32LE(0xffffffff, compressed.length - 8);
  await assert.rejects(
    buffer(Readable.from([compressed.subarray(0, 1_000), compressed.subarray(2_000)]).pipe(fromZstd())),
  );
});
