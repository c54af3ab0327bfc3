import assert from 'node:assert/strict';
import { test } from 'node:test';
import { nativePackage } from './native-package.ts';

const pnpm = Object.fromEntries(
  ['win32-x64', 'darwin-arm64', 'linux-arm64-musl', 'linux-x64-musl', 'linux-x64', 'linux-arm64', 'android-x64'].map(
    (machine) => [`@pnpm/exe.${machine}`, '12.21.0'],
  ),
);

test('the compiled programs are those for Linux with glibc and this processor', () => {
  assert.deepEqual(nativePackage(pnpm, 'x64'), { name: '@pnpm/exe.linux-x64', version: '12.21.0' });
  assert.deepEqual(nativePackage(pnpm, 'arm64'), { name: '@pnpm/exe.linux-arm64', version: '12.21.0' });
  assert.deepEqual(nativePackage({ 'tool-linux-x64-gnu': '1.0.0' }, 'x64'), {
    name: 'tool-linux-x64-gnu',
    version: '1.0.0',
  });
});

test('a tool that is whole has none, nor has one whose version is not said', () => {
  assert.equal(nativePackage({}, 'x64'), undefined);
  assert.equal(nativePackage({ fsevents: '2.3.3' }, 'x64'), undefined);
  assert.equal(nativePackage({ 'tool-linux-x64': '^1.0.0' }, 'x64'), undefined);
  assert.equal(nativePackage(pnpm, 's390x'), undefined);
});
