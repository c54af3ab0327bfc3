import assert from 'node:assert/strict';
import { test } from 'node:test';
import { buildLimitsOf, byteSize } from './build-limits.ts';

const sizes: [string, number][] = [
  ['1024', 1024],
  ['512MB', 512 * 1024 ** 2],
  ['2 GB', 2 * 1024 ** 3],
  ['1.5g', 1.5 * 1024 ** 3],
  ['64KiB', 65_536],
];
for (const [text, bytes] of sizes) test(`${text} is ${bytes} bytes`, () => assert.equal(byteSize.parse(text), bytes));

for (const text of ['', '0', '-1', 'much', '1TB', '1 2']) {
  test(`${JSON.stringify(text)} is no size`, () => assert.equal(byteSize.safeParse(text).success, false));
}

test('a limit that cannot be read is named', () => {
  assert.equal(buildLimitsOf({ OTHER: 'x' }).FLYNN_BUILD_PIDS, 1024);
  assert.equal(buildLimitsOf({ FLYNN_BUILD_TIMEOUT: '5m' }).FLYNN_BUILD_TIMEOUT, 300_000);
  assert.throws(() => buildLimitsOf({ FLYNN_BUILD_PIDS: 'many' }), { code: 'invalid', message: /FLYNN_BUILD_PIDS/ });
});
