import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Furthest } from './furthest.ts';

test('only an attempt that comes further than all before is one that got on', async (t) => {
  let nowMs = 0;
  t.mock.method(performance, 'now', () => nowMs);
  const furthest = new Furthest();
  const attempt = async (...sizes: number[]): Promise<number> => {
    const source = async function* (): AsyncGenerator<Uint8Array> {
      for (const size of sizes) {
        nowMs += 1;
        yield new Uint8Array(size);
      }
    };
    let bytes = 0;
    for await (const chunk of furthest.noting(source())) bytes += chunk.length;
    return bytes;
  };
  assert.equal(await attempt(3, 4), 7);
  assert.equal(furthest.fruitlessMs, 0);
  assert.equal(await attempt(1, 2, 3), 6);
  assert.equal(furthest.fruitlessMs, 3);
  assert.equal(await attempt(7), 7);
  assert.equal(furthest.fruitlessMs, 4);
  assert.equal(await attempt(8), 8);
  assert.equal(furthest.fruitlessMs, 0);
});
