import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bunPackage } from '../nodejs/managers.ts';
import { bunWish } from './version.ts';

const file = { version: '1.2', file: '.bun-version' };
const wishes: [
  packageManager: string | undefined,
  bun: string | undefined,
  hasFile: boolean,
  range: string,
  by: RegExp,
][] = [
  ['bun@1.4.5', '^1.1.0', true, '1.4.5', /packageManager/],
  ['bun@1.4.5+sha512.abc', undefined, false, '1.4.5', /packageManager/],
  ['bun@latest', '^1.1.0', true, '^1.1.0', /engines\.bun/],
  ['npm@11.0.0', undefined, true, '1.2', /\.bun-version/],
  [undefined, undefined, false, '*', /this app/],
];
for (const [packageManager, bun, hasFile, range, by] of wishes) {
  test(`packageManager ${packageManager}, engines ${bun} and ${hasFile ? 'a' : 'no'} .bun-version ask for ${range}`, () => {
    const wish = bunWish({ packageManager, engines: bun === undefined ? {} : { bun } }, hasFile ? file : undefined);
    assert.equal(wish.range, range);
    assert.match(wish.by, by);
  });
}

test('what is no version is refused, saying who asks', () => {
  assert.throws(() => bunWish({ packageManager: 'bun@canary', engines: {} }, undefined), {
    code: 'invalid',
    message: /packageManager in package\.json asks for Bun "canary", which is not a version/,
  });
});

test('Bun is the one that runs on any processor of its kind', () => {
  assert.equal(bunPackage('x64'), '@oven/bun-linux-x64-baseline');
  assert.equal(bunPackage('arm64'), '@oven/bun-linux-aarch64');
});
