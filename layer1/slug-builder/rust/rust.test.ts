import assert from 'node:assert/strict';
import { test } from 'node:test';
import { bench } from '../compile-fixture.ts';
import { selectBuildpacks } from '../selection.ts';
import { whichIsWeb } from './rust.ts';

test('what was an app of Go, or a site, before Rust was built here is one still', async () => {
  const apps: [files: Record<string, string>, buildpack: string][] = [
    [{ 'go.mod': 'module example.com/x\n' }, 'go'],
    [{ 'index.html': '', 'src/lib.rs': '' }, 'static'],
    [{ 'index.html': '', 'src/main.rs': '' }, 'rust'],
    [{ 'index.html': '', 'Cargo.toml': '[workspace]\nmembers = ["a"]\n' }, 'rust'],
    [{ 'src/lib.rs': '' }, 'rust'],
    [{ 'index.html': '', 'src/lib.rs': '', '.buildpacks': 'rust\n' }, 'rust'],
  ];
  for (const [files, expected] of apps) {
    await using b = await bench({ 'Cargo.toml': '[package]\nname = "shop"\n', ...files });
    const [first] = await selectBuildpacks(b.context());
    assert.equal(first?.buildpack.name, expected, Object.keys(files).join(', '));
  }
});

test('a Cargo.toml is Rust, and beside a package.json it is said how both are built', async () => {
  await using b = await bench({ 'Cargo.toml': '[package]\nname = "shop"\n', Procfile: 'web: target/release/shop\n' });
  const [first] = await selectBuildpacks(b.context());
  assert.equal(first?.buildpack.name, 'rust');
  assert.equal(b.output(), '');
  await using both = await bench({ 'Cargo.toml': '', 'src/main.rs': '', 'package.json': '{}', 'index.html': '' });
  const [chosen] = await selectBuildpacks(both.context());
  assert.equal(chosen?.buildpack.name, 'nodejs');
  assert.match(
    both.output(),
    /looks like Rust too\. It is built as Node\.js;.*main language last:\n.*'rust\\nnodejs\\n'/,
  );
});

test('of a library alone it is said that nothing of it starts, and of several programs which there are', () => {
  assert.match(whichIsWeb([], 'shop').join('\n'), /^Nothing of this Cargo\.toml is a program: .*src\/main\.rs/);
  const programs = ['b', 'a'].map((name) => ({ name, path: `release/${name}` }));
  assert.match(
    whichIsWeb(programs, 'shop').join('\n'),
    /^There are 2 programs, and none is called shop: a, b\..*\necho 'web: target\/release\/a' > Procfile/,
  );
  assert.match(whichIsWeb(programs, undefined)[0] ?? '', /no package at the top/);
});
