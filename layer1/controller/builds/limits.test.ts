import assert from 'node:assert/strict';
import { test } from 'node:test';
import { amountText, appBuildLimits, buildLimitsOf, byteSize } from './limits.ts';

const sizes: [string, number][] = [
  ['1024', 1024],
  ['512MB', 512 * 1024 ** 2],
  ['2 GB', 2 * 1024 ** 3],
  ['1.5g', 1.5 * 1024 ** 3],
  ['64KiB', 65_536],
  ['10737418240', 10 * 1024 ** 3],
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

const mebibyte = 1024 ** 2;

test('an app gets what the cluster says, less if it asks for less, and more as far as the cluster lets it', () => {
  const env = { FLYNN_BUILD_TIMEOUT: '10m', FLYNN_BUILD_TIMEOUT_MAX: '1h' };
  const usual = appBuildLimits(env, {}, 512 * mebibyte);
  assert.deepEqual(usual.memory, { value: 512 * mebibyte, most: 512 * mebibyte, isOwn: false });
  assert.deepEqual(usual.time, { value: 600_000, most: 3_600_000, isOwn: false });
  const own = appBuildLimits(env, { 'build.memory': '256MB', 'build.time': '20m' }, 512 * mebibyte);
  assert.deepEqual(own.memory, { value: 256 * mebibyte, most: 512 * mebibyte, isOwn: true });
  assert.deepEqual(own.time, { value: 1_200_000, most: 3_600_000, isOwn: true });
  // A highest that is below what everybody gets lowers nothing.
  assert.equal(appBuildLimits({ FLYNN_BUILD_DISK_MAX: '1GB' }, {}, mebibyte).disk.most, 10 * 1024 * mebibyte);
});

const wishes: [Record<string, string>, RegExp][] = [
  [
    { 'build.memory': '4GB' },
    /memory=4GB is more than this cluster lets a build have \(512MB\).*FLYNN_BUILD_MEMORY_MAX=4GB/,
  ],
  [{ 'build.time': '2h' }, /more than this cluster lets a build have \(30m\).*FLYNN_BUILD_TIMEOUT_MAX/],
  [{ 'build.time': 'long' }, /time=long is no limit of builds: expected a duration.*flynn limit build time=20m/],
  [{ 'build.time': '1s' }, /time=1s is no limit/],
  [{ 'build.memory': '1MB' }, /less than 16MB/],
];
for (const [meta, why] of wishes) {
  test(`${JSON.stringify(meta)} is refused with what would do`, () => {
    assert.throws(() => appBuildLimits({}, meta, 512 * mebibyte), { code: 'invalid', message: why });
  });
}

test('amounts are told as one writes them', () => {
  const rows = [
    amountText('memory', 2 * 1024 * mebibyte),
    amountText('disk', 300 * mebibyte),
    amountText('time', 90_000),
  ];
  assert.deepEqual(rows, ['2GB', '300MB', '90s']);
});
