import assert from 'node:assert/strict';
import { test } from 'node:test';
import { type Program, readArtifacts, webCommand } from './artifacts.ts';

const messages = [
  {
    reason: 'compiler-artifact',
    package_id: 'registry+https://crates.example.com/#ring@1.0.0',
    target: { kind: ['custom-build'], name: 'build-script-build' },
    filenames: ['/t/release/build/ring-0123456789abcdef/build-script-build'],
    executable: null,
  },
  {
    reason: 'build-script-executed',
    package_id: 'registry+https://crates.example.com/#ring@1.0.0',
    out_dir: '/t/release/build/ring-1111111111111111/out',
  },
  {
    reason: 'compiler-artifact',
    package_id: 'git+https://git.example.com/log#0123456789',
    target: { kind: ['lib'], name: 'log' },
    filenames: ['/t/release/deps/liblog-2222222222222222.rlib', '/t/release/deps/liblog-2222222222222222.rmeta'],
    executable: null,
  },
  {
    reason: 'compiler-artifact',
    package_id: 'path+file:///app/common#0.1.0',
    target: { kind: ['lib'], name: 'common' },
    filenames: ['/t/release/deps/libcommon-3333333333333333.rlib'],
    executable: null,
  },
  {
    reason: 'compiler-artifact',
    package_id: 'path+file:///app#shop@0.1.0',
    target: { kind: ['bin'], name: 'shop' },
    filenames: ['/t/x86_64-unknown-linux-gnu/release/shop'],
    executable: '/t/x86_64-unknown-linux-gnu/release/shop',
  },
  {
    reason: 'compiler-artifact',
    package_id: 'path+file:///app#shop@0.1.0',
    target: { kind: ['example'], name: 'demo' },
    filenames: ['/t/release/examples/demo'],
    executable: '/t/release/examples/demo',
  },
  { reason: 'build-finished', success: true },
];

test('what Cargo says tells the programs, and what was compiled of others', () => {
  const text = ['a build script said this', '{ and this', ...messages.map((each) => JSON.stringify(each))].join('\n');
  const { programs, ofOthers } = readArtifacts(text, '/t');
  assert.deepEqual(programs, [{ name: 'shop', path: 'x86_64-unknown-linux-gnu/release/shop' }]);
  assert.deepEqual([...ofOthers], ['0123456789abcdef', '1111111111111111', '2222222222222222']);
});

const program = (name: string): Program => ({ name, path: `release/${name}` });

test('the web process is the only program, or the one called like the package', () => {
  assert.equal(webCommand([program('a')], 'shop'), 'target/release/a');
  assert.equal(webCommand([program('a'), program('shop')], 'shop'), 'target/release/shop');
  assert.equal(webCommand([program('a'), program('b')], 'shop'), undefined);
  assert.equal(webCommand([program('a'), program('b')], undefined), undefined);
  assert.equal(webCommand([], 'shop'), undefined);
});
