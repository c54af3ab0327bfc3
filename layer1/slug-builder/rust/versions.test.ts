import assert from 'node:assert/strict';
import { test } from 'node:test';
import { checkRust, newestRust, rustLibraries, wishOfToolchain } from './versions.ts';

test('the newest of the Rusts that Debian has is taken, with its own Cargo', () => {
  const names = ['libstd-rust-1.85', 'libstd-rust-dev', 'libstd-rust-web-1.100', 'libstd-rust-web-dev'];
  const found = names.flatMap((name) => rustLibraries.exec(name)?.[1] ?? []);
  assert.deepEqual(newestRust(found), { version: '1.100', packages: ['rustc-web', 'cargo-web'] });
  assert.deepEqual(newestRust(['1.85']), { version: '1.85', packages: ['rustc', 'cargo'] });
  assert.deepEqual(newestRust(['1.97', 'web-1.96']).packages, ['rustc', 'cargo']);
  assert.throws(() => newestRust([]), { code: 'unavailable' });
});

const toolchains: [text: string, version: string | undefined][] = [
  ['[toolchain]\nchannel = "stable"\ncomponents = ["clippy"]\n', undefined],
  ['[toolchain]\nchannel = "1.78.0"\n', '1.78.0'],
  ['[toolchain]\npath = "/opt/rust"\n', undefined],
  ['stable\n', undefined],
  ['1.85\n', '1.85'],
  ['1.85.1-x86_64-unknown-linux-gnu\n', '1.85.1'],
];
for (const [text, version] of toolchains) {
  test(`${JSON.stringify(text)} asks for ${version ?? 'any Rust that is released'}`, () =>
    assert.equal(wishOfToolchain(text, 'rust-toolchain')?.version, version));
}

test('a Rust that is not released is refused, and so is a file that is none', () => {
  for (const channel of ['nightly', 'nightly-2026-01-01', 'beta', '1.90.0-beta.1', 'mine']) {
    assert.throws(() => wishOfToolchain(`[toolchain]\nchannel = "${channel}"`, 'rust-toolchain.toml'), {
      code: 'invalid',
      message: /rust-toolchain\.toml asks for Rust "[^"]+".*channel = "stable".*Dockerfile/,
    });
  }
  assert.throws(() => wishOfToolchain('[toolchain\n', 'rust-toolchain.toml'), { code: 'invalid' });
});

test('an older Rust is done with what there is, a newer one is refused', () => {
  for (const version of ['1', '1.56', '1.96', '1.96.9']) checkRust({ version, file: 'Cargo.toml' }, '1.96');
  for (const version of ['1.97', '1.100.0', '2']) {
    assert.throws(() => checkRust({ version, file: 'Cargo.toml' }, '1.96'), {
      code: 'invalid',
      message: /Cargo\.toml asks for Rust [\d.]+, and the newest there is in Debian is 1\.96.*Dockerfile/,
    });
  }
});
