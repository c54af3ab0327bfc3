import assert from 'node:assert/strict';
import { Readable } from 'node:stream';
import { test } from 'node:test';
import * as fc from 'fast-check';
import { inBlocks } from './build.ts';

test('however a stream is cut, its blocks are the same, and together they are the stream', async () => {
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 200_000 }), { maxLength: 8 }), async (sizes) => {
      const whole = Buffer.alloc(
        sizes.reduce((sum, size) => sum + size, 0),
        'the same bytes ',
      );
      let at = 0;
      const cut = sizes.map((size) => whole.subarray(at, (at += size)));
      const blocks = await Readable.from(inBlocks(Readable.from(cut))).toArray();
      assert.ok(Buffer.concat(blocks).equals(whole));
      assert.deepEqual(
        blocks.slice(0, -1).map((block: Buffer) => block.length),
        blocks.slice(0, -1).map(() => 128 * 1024),
      );
    }),
    { numRuns: 50 },
  );
});
